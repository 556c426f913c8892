"""Files of the safetensors library: read as usual, but kept in memory when they are written."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import torch

from gpumemprof.estimate.engine.fake_mode import outside_modes
from gpumemprof.estimate.patches.patcher import Patcher

if TYPE_CHECKING:
    from gpumemprof.estimate.patches.saving import SavedTensor, Saver

__all__ = ["install"]

_TYPE_NAMES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
_USERS = ("transformers", "accelerate", "diffusers", "peft", "huggingface_hub", "safetensors")


def install(patcher: Patcher, saver: Saver) -> None:
    import safetensors
    from safetensors import torch as safe

    def save_file(tensors: Any, filename: Any, *_: Any, **__: Any) -> None:
        saver.save(dict(tensors), filename)

    def save_model(model: Any, filename: Any, *_: Any, **__: Any) -> None:
        saver.save(model.state_dict(), filename)

    def load_file(filename: Any, device: Any = "cpu", **more: Any) -> Any:
        if saver.has(filename):
            return saver.restored(saver.content(filename), device)
        with outside_modes():
            loaded = real_load(filename, "cpu", **more)
        place = torch.device(device)
        return loaded if place.type == "cpu" else {k: v.to(place) for k, v in loaded.items()}

    def safe_open(filename: Any, *args: Any, **kwargs: Any) -> Any:
        device = kwargs.pop("device", args[1] if len(args) > 1 else "cpu")
        if saver.has(filename):
            return _KeptFile(saver, filename, device)
        with outside_modes():
            return _RealFile(real_open(filename, *args[:1], device="cpu", **kwargs), device)

    real_load = safe.load_file
    real_open = safetensors.safe_open
    replaced = {
        real_load: load_file,
        real_open: safe_open,
        safe.save_file: save_file,
        safe.save_model: save_model,
    }
    # Modules that imported the functions before have them under names of their own.
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] not in _USERS:
            continue
        for attribute, value in list(vars(module).items()):
            try:
                new = replaced.get(value)
            except TypeError:  # not hashable
                continue
            if new is not None:
                patcher.set(module, attribute, new)


class _KeptFile:
    """What safetensors.safe_open() returns, for a file that was only kept in memory."""

    def __init__(self, saver: Saver, filename: Any, device: Any) -> None:
        self._saver = saver
        self._tensors: dict[str, SavedTensor] = saver.content(filename)
        self._device = device

    def __enter__(self) -> _KeptFile:
        return self

    def __exit__(self, *_: Any) -> None:
        pass

    def keys(self) -> list[str]:
        return list(self._tensors)

    offset_keys = keys

    def metadata(self) -> dict[str, str]:
        return {"format": "pt"}

    def get_tensor(self, name: str) -> torch.Tensor:
        found: torch.Tensor = self._saver.restored(self._tensors[name], self._device)
        return found

    def get_slice(self, name: str) -> _Slice:
        return _Slice(self, name, self._tensors[name])


class _RealFile:
    """A file on the disk: its tensors are read without the modes, and then moved."""

    def __init__(self, file: Any, device: Any) -> None:
        self._file = file
        self._device = torch.device(device)

    def __enter__(self) -> _RealFile:
        self._file.__enter__()
        return self

    def __exit__(self, *details: Any) -> None:
        self._file.__exit__(*details)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def get_tensor(self, name: str) -> torch.Tensor:
        with outside_modes():
            tensor: torch.Tensor = self._file.get_tensor(name)
        return tensor if self._device.type == "cpu" else tensor.to(self._device)

    def get_slice(self, name: str) -> _RealSlice:
        return _RealSlice(self._file.get_slice(name), self._device)


class _RealSlice:
    def __init__(self, real: Any, device: torch.device) -> None:
        self._real = real
        self._device = device

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def __getitem__(self, index: Any) -> torch.Tensor:
        with outside_modes():
            tensor: torch.Tensor = self._real[index]
        return tensor if self._device.type == "cpu" else tensor.to(self._device)


class _Slice:
    def __init__(self, file: _KeptFile, name: str, saved: SavedTensor) -> None:
        self._file = file
        self._name = name
        self._saved = saved

    def get_shape(self) -> list[int]:
        return list(self._saved.shape)

    def get_dtype(self) -> str:
        return _TYPE_NAMES.get(self._saved.dtype, str(self._saved.dtype))

    def __getitem__(self, index: Any) -> torch.Tensor:
        return self._file.get_tensor(self._name)[index]
