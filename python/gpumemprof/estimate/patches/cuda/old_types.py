"""torch.cuda.FloatTensor and its kind, as constructors, types and defaults."""

from __future__ import annotations

from typing import Any

import torch

from gpumemprof.estimate.patches.patcher import Patcher

__all__ = ["install"]

_DTYPES = {
    "FloatTensor": torch.float32,
    "DoubleTensor": torch.float64,
    "HalfTensor": torch.float16,
    "BFloat16Tensor": torch.bfloat16,
    "LongTensor": torch.int64,
    "IntTensor": torch.int32,
    "ShortTensor": torch.int16,
    "CharTensor": torch.int8,
    "ByteTensor": torch.uint8,
    "BoolTensor": torch.bool,
}


class _OldType(type):
    """A type of tensors on the device: calling it makes one."""

    dtype: torch.dtype

    def __call__(cls, *values: Any, **_: Any) -> torch.Tensor:
        if len(values) == 1 and not isinstance(values[0], int):
            return torch.as_tensor(values[0]).to("cuda", cls.dtype)
        return torch.empty(values or (0,), dtype=cls.dtype, device="cuda")

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, torch.Tensor) and value.is_cuda and value.dtype == cls.dtype


def install(patcher: Patcher) -> None:
    types = {
        f"torch.cuda.{name}": _OldType(name, (), {"dtype": dtype, "__module__": "torch.cuda"})
        for name, dtype in _DTYPES.items()
    }

    def change(tensor: torch.Tensor, wanted: Any = None, *args: Any, **kwargs: Any) -> Any:
        kind = types.get(wanted) if isinstance(wanted, str) else wanted
        if isinstance(kind, _OldType):
            return tensor.to("cuda", kind.dtype)
        return real(tensor, *(() if wanted is None else (wanted,)), *args, **kwargs)

    def set_default(wanted: Any) -> None:
        kind = types.get(wanted) if isinstance(wanted, str) else wanted
        if not isinstance(kind, _OldType):
            real_default(wanted)
            return
        torch.set_default_dtype(kind.dtype)
        torch.set_default_device("cuda")

    for name, kind in types.items():
        patcher.set(torch.cuda, name.rpartition(".")[2], kind)
    real = patcher.set(torch.Tensor, "type", change)
    real_default = patcher.set(torch, "set_default_tensor_type", set_default)
