"""Processes that the program starts run for real, without a card: the answer says where."""

from __future__ import annotations

from multiprocessing.process import BaseProcess
from typing import Any

from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.patches.patcher import Patcher

__all__ = ["install"]

# Modules whose processes load data, or serve the program's own.
_HELPERS = ("torch.utils.data", "multiprocessing")


def install(patcher: Patcher, device: Device) -> None:
    start = BaseProcess.start

    def watched(process: Any) -> None:
        module = getattr(getattr(process, "_target", None), "__module__", None)
        if not (module or type(process).__module__).startswith(_HELPERS):
            device.note(
                "behaviour",
                "a process that the program starts is not predicted and finds no GPU; if it uses "
                "one, call its function here instead",
            )
        start(process)

    patcher.set(BaseProcess, "start", watched)
