"""Hooks into torch while a recording is open: which storages are parameters, gradients, and so on.

Nothing in the program is changed or kept alive: modules and optimizers are held weakly, tensors not
at all. A failure here turns the hooks off, warns once, and never reaches the program.
"""

from __future__ import annotations

import threading

from gpumemprof.hooks.watcher import Watcher

__all__ = ["leave", "watch"]

_lock = threading.RLock()
_watcher: Watcher | None = None
_recordings = 0


def watch() -> None:
    """A recording that wants labels is open, and torch is imported."""
    global _watcher, _recordings
    with _lock:
        _recordings += 1
        if _watcher is None:
            _watcher = Watcher()
            _watcher.start()
        else:
            _watcher.emit_all_again()


def leave(searches: bool = True) -> dict[str, str]:
    """One of these recordings is about to end; searching for modules delays that.

    Returns the facts collected for its header.
    """
    global _watcher, _recordings
    facts: dict[str, str] = {}
    with _lock:
        if _recordings == 0:
            return facts
        if _watcher is not None:
            _watcher.emit_last(searches)
            facts = _watcher.facts()
        _recordings -= 1
        if _recordings == 0 and _watcher is not None:
            _watcher.stop()
            _watcher = None
    return facts


def forget() -> None:
    """In a forked child: drop the parent's recordings."""
    global _lock, _recordings, _watcher
    _lock = threading.RLock()
    _recordings = 0
    if _watcher is not None:
        _watcher.stop()
        _watcher = None
