"""Marks where Python's garbage collector freed something, so that cycles are seen as such."""

from __future__ import annotations

import contextlib
import gc
from typing import Any

from gpumemprof import _core

__all__ = ["start", "stop"]

# src/analysis/leaks reads it: what was freed right before such a mark, the collector freed.
_NAME = "garbage collection"


def _collected(phase: str, info: dict[str, Any]) -> None:
    if phase != "stop" or not info.get("collected"):
        return
    with contextlib.suppress(Exception):
        _core.capture_mark(_NAME, True)
        _core.capture_mark(_NAME, False)


def start() -> None:
    """Mark collections from now on."""
    if _collected not in gc.callbacks:
        gc.callbacks.append(_collected)


def stop() -> None:
    """Mark no more of them."""
    with contextlib.suppress(ValueError):
        gc.callbacks.remove(_collected)
