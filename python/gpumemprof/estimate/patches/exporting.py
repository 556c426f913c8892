"""torch.export and ONNX: both trace on fake tensors of their own, so the program itself runs."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch

from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.engine.failures import CannotEstimate
from gpumemprof.estimate.patches.patcher import Patcher

__all__ = ["change_inductor", "change_onnx", "install"]


class _Exported:
    """In the place of an ExportedProgram: its module is the model that was exported."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def module(self, *_: Any, **__: Any) -> Any:
        return self._model

    def run_decompositions(self, *_: Any, **__: Any) -> _Exported:
        return self

    @property
    def state_dict(self) -> Any:
        return self._model.state_dict()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise CannotEstimate(
            f"estimate does not export models, so that there is no {name} of this one",
            "call the model itself in the program that is predicted",
        )


def install(patcher: Patcher, device: Device) -> None:
    def export(mod: Any, args: Any = (), kwargs: Any = None, **_: Any) -> _Exported:
        _run(device, "torch.export", mod, tuple(args), kwargs or {})
        return _Exported(mod)

    saved: dict[str, Any] = {}

    def save(exported: Any, file: Any, **_: Any) -> None:
        device.note("behaviour", "what is saved is kept in memory, and no file is written")
        saved[str(file)] = exported

    def load(file: Any, **named: Any) -> Any:
        return saved[str(file)] if str(file) in saved else real_load(file, **named)

    patcher.set_if_present(torch.export, "save", save)
    real_load = patcher.set_if_present(torch.export, "load", load)
    for name in ("export", "export_for_training", "export_for_inference", "draft_export"):
        patcher.set_if_present(torch.export, name, export)


def change_onnx(patcher: Patcher, module: ModuleType, device: Device) -> None:
    """torch.onnx, which is imported when a program first uses it."""

    def export(model: Any, args: Any = (), *_: Any, **named: Any) -> None:
        words = args if isinstance(args, tuple) else (args,)
        kwargs = named.get("kwargs")
        if kwargs is None and words and isinstance(words[-1], dict):
            words, kwargs = words[:-1], words[-1]
        _run(device, "torch.onnx.export", model, words, kwargs or {})
        device.note("behaviour", "no ONNX file is written")

    patcher.set_if_present(module, "export", export)


def change_inductor(patcher: Patcher, module: ModuleType) -> None:
    """torch._inductor, which can compile an exported model to a library."""

    def refuse(*_: Any, **__: Any) -> None:
        raise CannotEstimate(
            "estimate does not compile models ahead of time",
            "call the model itself in the program that is predicted",
        )

    for name in ("aoti_compile_and_package", "aot_compile"):
        patcher.set_if_present(module, name, refuse)


def _run(
    device: Device, what: str, model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    device.note("execution", f"{what} was skipped: the estimate is of the eager program")
    with torch.no_grad():
        model(*args, **kwargs)
