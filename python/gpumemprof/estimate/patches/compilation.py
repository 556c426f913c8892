"""torch.compile and torch.jit: the program runs eagerly, and the estimate says so."""

from __future__ import annotations

from typing import Any

import torch

from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.patches.patcher import Patcher

__all__ = ["install"]


def install(patcher: Patcher, device: Device) -> None:
    def run_eagerly(model: Any = None, *_: Any, **__: Any) -> Any:
        device.note("execution", "torch.compile was skipped: the estimate is of the eager program")
        return (lambda function: function) if model is None else model

    def compile_module(module: torch.nn.Module, *_: Any, **__: Any) -> None:
        run_eagerly(module)

    patcher.set(torch, "compile", run_eagerly)
    patcher.set(torch.nn.Module, "compile", compile_module)
    # Flex attention and others compile themselves; dynamo would trace through our patches.
    compiler = getattr(torch, "compiler", None)
    if compiler is not None:
        patcher.set_if_present(compiler, "compile", run_eagerly)
        for name in ("reset", "cudagraph_mark_step_begin"):
            patcher.set_if_present(compiler, name, lambda *_, **__: None)
