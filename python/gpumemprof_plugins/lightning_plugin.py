"""What Lightning asks for whenever a Trainer is made: callbacks, but none unless GPUMEMPROF=1."""

from __future__ import annotations

import os
from typing import Any

_OFF = ("", "0")


def _callbacks(package: str) -> list[Any]:
    if os.environ.get("GPUMEMPROF", "0") in _OFF:
        return []
    try:
        from gpumemprof.integrations.lightning import callback_class

        return [callback_class(package)()]
    except Exception:  # The program keeps running, without it.
        return []


def lightning_callbacks() -> list[Any]:
    """For ``lightning.pytorch``."""
    return _callbacks("lightning.pytorch")


def pytorch_lightning_callbacks() -> list[Any]:
    """For ``pytorch_lightning``, the same package by its older name."""
    return _callbacks("pytorch_lightning")
