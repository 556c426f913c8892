"""TorchScript: its interpreter would call CUDA kernels, so that the program's own code runs."""

from __future__ import annotations

import contextlib
from types import FunctionType
from typing import Any

import torch

from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.patches.patcher import Patcher

__all__ = ["install"]


def install(patcher: Patcher, device: Device) -> None:
    def note() -> None:
        device.note("execution", "TorchScript was skipped: the estimate is of the eager program")

    def savable(code: Any) -> Any:
        """With the method that a script has."""
        if not hasattr(code, "save"):
            with contextlib.suppress(AttributeError):
                object.__setattr__(code, "save", lambda file, **_: torch.jit.save(code, file))
        return code

    def script(code: Any = None, *args: Any, **kwargs: Any) -> Any:
        if isinstance(code, type):  # of a value that scripts use: it takes no memory
            return code
        if isinstance(code, FunctionType) and code.__module__.startswith("torch."):
            return real_script(code, *args, **kwargs)  # torch reads the graphs of its own
        note()
        return savable(code)

    def trace(code: Any, example_inputs: Any = None, *_: Any, **kwargs: Any) -> Any:
        note()
        inputs = kwargs.get("example_kwarg_inputs")
        with torch.no_grad():
            if inputs is not None:
                code(**inputs)
            elif example_inputs is not None:
                code(*(example_inputs if isinstance(example_inputs, tuple) else (example_inputs,)))
        return savable(code)

    real_script = patcher.set(torch.jit, "script", script)
    patcher.set(torch.jit, "trace", trace)
    for name in ("freeze", "optimize_for_inference"):
        patcher.set(torch.jit, name, lambda code, *_, **__: code)
    saved: dict[str, Any] = {}

    def save(code: Any, file: Any, *_: Any, **__: Any) -> None:
        device.note("behaviour", "what is saved is kept in memory, and no file is written")
        saved[str(file)] = code

    def load(file: Any, *args: Any, **kwargs: Any) -> Any:
        found = saved.get(str(file))
        return real_load(file, *args, **kwargs) if found is None else found

    patcher.set(torch.jit, "save", save)
    real_load = patcher.set(torch.jit, "load", load)
