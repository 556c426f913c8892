"""Runs a program recorded, with remedies applied: ``-m gpumemprof.applied REQUEST RUN'S WORDS``."""

from __future__ import annotations

import atexit
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from gpumemprof import _torch, applied, run
from gpumemprof.applied.effect import Effect, Request

_MOST_STEPS = 10_000


class _Session:
    """What is written down at the end: the effects, and when steps ended."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._process = os.getpid()
        self._effects: list[Effect] = []
        self._first_optimizer: int | None = None
        self._step_ends: list[float] = []

    def start(self) -> None:
        self._effects = applied.start(self._request)
        _torch.watch_optimizers(lambda _: None, self._after_step)

    def write(self) -> None:
        if os.getpid() != self._process:
            return
        notes = {
            "effects": [vars(effect) for effect in self._effects],
            "step_ends": self._step_ends,
        }
        Path(self._request.notes_path).write_text(json.dumps(notes))

    def _after_step(self, optimizer: Any, has_closure: bool) -> None:
        if self._first_optimizer is None:
            self._first_optimizer = id(optimizer)
        if id(optimizer) == self._first_optimizer and len(self._step_ends) < _MOST_STEPS:
            _torch.wait_for_device()
            self._step_ends.append(time.perf_counter())


def main(words: list[str]) -> int:
    """The program's exit code, or what it raises."""
    session = _Session(Request(**json.loads(words[0])))
    # Registered first, so it runs last.
    atexit.register(session.write)
    _torch.when_imported(session.start)
    return run.main(words[1:], is_quiet=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
