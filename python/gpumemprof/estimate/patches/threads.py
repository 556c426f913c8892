"""Threads that the program starts are estimated too; torch's dispatch modes are per thread."""

from __future__ import annotations

import threading
from typing import Any, Callable

from gpumemprof.estimate.patches.patcher import Patcher

__all__ = ["install"]

# Modules whose threads do work that is not the program's own.
_OTHERS = (
    "gpumemprof",
    "torch.utils.data",
    "multiprocessing",
    "tqdm",
    "concurrent.futures.process",
)


def install(patcher: Patcher, modes: Callable[[], Any]) -> None:
    real = threading.Thread.run

    def run(thread: threading.Thread) -> None:
        target = getattr(thread, "_target", None)
        module = getattr(target, "__module__", None) or type(thread).__module__
        if module.startswith(_OTHERS):
            real(thread)
            return
        with modes():
            real(thread)

    patcher.set(threading.Thread, "run", run)
