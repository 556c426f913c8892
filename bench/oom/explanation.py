"""What an explanation costs a failing program. Prints JSON.

Usage: python bench/oom/explanation.py RUN.gmp [--times N]

RUN.gmp is a run that ran out of memory, such as one written by
``build/bench/make_long_run RUN.gmp --events 3000000``. CPU time is that of the process that reads
the recording, which includes starting Python.
"""

from __future__ import annotations

import argparse
import json
import resource
import time

from gpumemprof.failure.explanation import Question, ask


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run")
    parser.add_argument("--times", type=int, default=5)
    options = parser.parse_args()
    wall, cpu, found = [], [], None
    for _ in range(options.times):
        started, used = time.monotonic(), cpu_seconds()
        found = ask(Question(options.run, time.time_ns(), "out of memory", True, None, 80))
        wall.append(time.monotonic() - started)
        cpu.append(cpu_seconds() - used)
    print(
        json.dumps(
            {
                "cpu_s": round(min(cpu), 3),
                "wall_s": round(min(wall), 3),
                "cause": None if found is None else found.cause,
                "is_cut": None if found is None else found.is_cut,
            }
        )
    )


if __name__ == "__main__":
    main()
