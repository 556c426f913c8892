"""What watching for leaks adds to a step: the CPU time of its call, by comparison in one process.

python bench/holders/watch_cost.py prints one line of JSON. A step of training on a GPU takes
milliseconds; the bar is 0.2 % of one.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from pathlib import Path

import gpumemprof
import torch
from gpumemprof.holders.watch import LeakWatch

CALLS = 100_000


def main() -> int:
    parameter = torch.nn.Parameter(torch.zeros(4))
    parameter.grad = torch.zeros(4)
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    with (
        tempfile.TemporaryDirectory() as folder,
        gpumemprof.record(Path(folder) / "run.gmp", cpu=True) as recording,
    ):
        watch = LeakWatch(recording, on_leak=lambda leak: None)
        for _ in range(1000):  # past the looks that are counted in steps
            optimizer.step()
        rounds = []
        for _ in range(5):
            begin = time.process_time()
            for _ in range(CALLS):
                watch._after_step()
            rounds.append((time.process_time() - begin) / CALLS)
        looks = []
        for _ in range(5):
            optimizer.step()
            begin = time.process_time()
            watch._followed.look()
            looks.append(time.process_time() - begin)
        watch.stop()
    call_us = 1e6 * statistics.median(rounds)
    row = {
        "call_us": round(call_us, 3),
        "percent_of_a_1_ms_step": round(call_us / 10, 4),
        "look_with_nothing_new_ms": round(1e3 * statistics.median(looks), 3),
    }
    print(json.dumps(row))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
