"""torch.compile: torch's own compiler runs without a GPU, and its programs without their kernels.

What a compiled program allocates is decided by the compiler: which results the backward pass keeps,
which operations become one kernel, which buffers are used again. So the real one compiles, and the
Python program that it writes runs on fake tensors; the kernels themselves are never built. What
cannot be compiled here runs eagerly, and the estimate says so.
"""

from __future__ import annotations

from typing import Any, Callable

import torch

from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.patches.compiler.inductor import Inductor
from gpumemprof.estimate.patches.patcher import Patcher

__all__ = ["install"]

_BACKENDS = ("inductor", "aot_eager", "eager")
_DROPPED_OPTIONS = ("max_autotune", "coordinate_descent")  # Kernels cannot be timed here.
_GRAPHED_MODES = ("reduce-overhead", "max-autotune")


def install(patcher: Patcher, device: Device, modes: Callable[[], Any]) -> None:
    really_compile = torch.compile
    inductor = Inductor(patcher, device, modes)

    def compile_model(model: Any = None, **arguments: Any) -> Any:
        if model is None:
            return lambda function: compile_model(function, **arguments)
        if arguments.get("disable"):
            return model
        if not _is_known(arguments.get("backend", "inductor")) or not inductor.prepare():
            device.note("execution", "torch.compile was skipped: this is the eager program")
            return model
        inductor.expects_whole_graphs |= bool(arguments.get("fullgraph"))
        return really_compile(model, **_without_tuning(arguments, device))

    patcher.set(torch, "compile", compile_model)
    compiler = getattr(torch, "compiler", None)
    if compiler is not None:
        patcher.set_if_present(compiler, "cudagraph_mark_step_begin", lambda *_, **__: None)


def _is_known(backend: str | Callable[..., Any]) -> bool:
    return isinstance(backend, str) and backend in _BACKENDS


def _without_tuning(arguments: dict[str, Any], device: Device) -> dict[str, Any]:
    kept = dict(arguments)
    mode = kept.get("mode")
    kept.pop("fullgraph", None)  # It only forbids what must be possible here: to give up.
    options = kept.get("options")
    if options:
        kept["options"] = {
            name: value
            for name, value in options.items()
            if not name.replace("-", "_").startswith(_DROPPED_OPTIONS)
        }
    if mode not in (None, "default", "reduce-overhead"):
        kept["mode"] = "reduce-overhead" if mode in _GRAPHED_MODES else "default"
        device.note(
            "execution",
            f'torch.compile was followed as mode="{kept["mode"]}", without the timing of '
            f'mode="{mode}"',
        )
    return kept
