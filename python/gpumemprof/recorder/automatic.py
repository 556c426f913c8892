"""``GPUMEMPROF=1 python train.py``: records a program that nothing was changed in.

Each process records itself, like the children of ``gpumemprof run``. The first of them names all
recordings at its end. GPUMEMPROF_OUTPUT names the file, GPUMEMPROF_OPTIONS holds options of `run`.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

from gpumemprof.recorder import places, processes, registry
from gpumemprof.recorder.run_closing import print_message
from gpumemprof.recorder.run_options import VARIABLE, options_of_environment

__all__ = ["begin"]

_MOST_SECONDS = 60.0
_EXPORTER = (
    "import sys; sys.path.append(sys.argv[1]);"
    "from gpumemprof.errors import Error;"
    "from gpumemprof.integrations.monitoring import exporter\n"
    "try: print('metrics at', exporter.start(sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))\n"
    "except Error as error: print(error)"
)


def begin(place: str) -> None:
    """Call once the program has imported torch; `place` is where the registry is."""
    settings, mistakes = options_of_environment(os.environ.get(VARIABLE, ""))
    settings.is_automatic, settings.registry = True, place
    is_first = registry.is_mine(place) or not registry.is_there(place)
    if mistakes:
        them = "that" if len(mistakes) == 1 else "them"
        sentence = f"{VARIABLE}: {'; '.join(mistakes)}; recording goes on without {them}"
        if registry.is_first_to_say(place, sentence):
            print_message(sentence)
    if not settings.children and not is_first:
        return
    # The ranks of one job are started by a process that records nothing itself.
    if is_first or "LOCAL_RANK" in os.environ:
        settings.named_process = os.getpid()
    try:
        places.set_names(settings, registry.first_process(place))
    except Exception as problem:
        processes.say_unrecorded(settings, problem)
        return
    if settings.metrics is not None and registry.is_first_to_say(place, "metrics"):
        _publish(*settings.metrics, registry.first_process(place) or os.getpid())
    processes.join_by_itself(settings)


def _publish(host: str, port: int, program: int) -> None:
    """In a process of its own, which cannot be forked from one that has threads."""
    folder = str(Path(__file__).resolve().parents[2])
    words = [sys.executable, "-I", "-c", _EXPORTER, folder, host, str(port), str(program)]
    environment = {key: text for key, text in os.environ.items() if key != "GPUMEMPROF"}
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(
            words,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_MOST_SECONDS,
            check=False,
        )
        print_message(done.stdout.strip() or "metrics cannot be served")
