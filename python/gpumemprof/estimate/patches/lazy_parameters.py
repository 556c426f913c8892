"""Parameters of lazy modules, such as LazyLinear: they have no shape until the first batch.

They are subclasses of plain tensors, which fake tensors cannot become. So they stay plain and
empty, remember where they were moved, and give way to a fake tensor when they get their shape.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import parameter

from gpumemprof.estimate.engine.fake_mode import outside_modes
from gpumemprof.estimate.patches.patcher import Patcher

__all__ = ["install"]

_DTYPES = {
    torch.Tensor.half: torch.float16,
    torch.Tensor.float: torch.float32,
    torch.Tensor.double: torch.float64,
}


def install(patcher: Patcher) -> None:
    def make(
        cls: Any, requires_grad: bool = True, device: Any = None, dtype: Any = None, **_: Any
    ) -> Any:
        is_parameter = issubclass(cls, torch.nn.Parameter)
        with outside_modes():
            data = torch.empty(0, dtype=dtype, device="cpu")
            made = torch.Tensor._make_subclass(cls, data, requires_grad and is_parameter)
        made.wanted_device = torch.get_default_device() if device is None else torch.device(device)
        made.wanted_dtype = data.dtype
        return made

    def materialize(tensor: Any, shape: Any, device: Any = None, dtype: Any = None) -> None:
        data = torch.empty(
            shape, device=device or tensor.wanted_device, dtype=dtype or tensor.wanted_dtype
        )
        is_parameter = isinstance(tensor, torch.nn.Parameter)
        made = torch.nn.Parameter(data, tensor.requires_grad) if is_parameter else data
        torch.utils.swap_tensors(tensor, made)

    mixin: Any = parameter.UninitializedTensorMixin
    real = mixin.__torch_function__.__func__

    def torch_function(
        cls: Any, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func in (torch.Tensor.to, torch.Tensor.cuda, torch.Tensor.cpu) or func in _DTYPES:
            return _moved(func, *args, **(kwargs or {}))
        return real(cls, func, types, args, kwargs)

    for kind in (parameter.UninitializedParameter, parameter.UninitializedBuffer):
        patcher.set(kind, "__new__", staticmethod(make))
    patcher.set(mixin, "materialize", materialize)
    patcher.set(mixin, "__torch_function__", classmethod(torch_function))


def _moved(func: Any, tensor: Any, *args: Any, **kwargs: Any) -> Any:
    """The same object: it has no contents that could be left behind."""
    if func is torch.Tensor.to:
        device, dtype, *_ = torch._C._nn._parse_to(*args, **kwargs)
        tensor.wanted_device = device or tensor.wanted_device
        tensor.wanted_dtype = dtype or tensor.wanted_dtype
    elif func is torch.Tensor.cuda:
        device = args[0] if args else kwargs.get("device")
        tensor.wanted_device = torch.device("cuda") if device is None else torch.device(device)
    elif func is torch.Tensor.cpu:
        tensor.wanted_device = torch.device("cpu")
    else:
        tensor.wanted_dtype = _DTYPES[func]
    return tensor
