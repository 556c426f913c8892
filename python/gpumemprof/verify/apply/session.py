"""Applies remedies to a program; at its exit writes down what they did, and when steps ended."""

from __future__ import annotations

import atexit
import json
import os
import time
from pathlib import Path
from typing import Any

from gpumemprof.torch_calls.optimizers import watch_optimizers
from gpumemprof.torch_calls.readiness import wait_for_device, when_imported
from gpumemprof.verify import apply
from gpumemprof.verify.apply.effect import Effect, Request

__all__ = ["begin"]

_MOST_STEPS = 10_000


class _Session:
    def __init__(self, request: Request) -> None:
        self._request = request
        self._process = os.getpid()
        self._effects: list[Effect] = []
        self._first_optimizer: int | None = None
        self._step_ends: list[float] = []

    def start(self) -> None:
        self._effects = apply.start(self._request)
        watch_optimizers(lambda _: None, self._after_step)

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
            wait_for_device()
            self._step_ends.append(time.perf_counter())


def begin(request: str) -> None:
    """Call in the process that runs the program, before its first line."""
    session = _Session(Request(**json.loads(request)))
    # Registered first, so it runs last.
    atexit.register(session.write)
    when_imported(session.start)
