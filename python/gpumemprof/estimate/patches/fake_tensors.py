"""Fake tensors that behave like plain CUDA tensors towards programs and torch's own Python code."""

from __future__ import annotations

import copyreg
import inspect
from typing import Any

import torch
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensor

from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.engine.fake_mode import outside_modes
from gpumemprof.estimate.engine.reading.answers import Answers
from gpumemprof.estimate.engine.reading.pinned import is_pinned, pin
from gpumemprof.estimate.engine.values import forget, is_assumed, known_value, set_known
from gpumemprof.estimate.patches import deep_copies
from gpumemprof.estimate.patches.patcher import Patcher

__all__ = ["install"]


def install(patcher: Patcher, device: Device, answers: Answers) -> None:
    _never_initialize_cuda(patcher)
    _treat_like_plain_tensors(patcher)
    _answer_reads(patcher, answers)
    _answer_addresses(patcher, device)
    _follow_resized_storages(patcher, device)
    _skip_pinning(patcher)
    # Memory of a card is always shared; on the host, the tensor is used as it is.
    patcher.set(FakeTensor, "share_memory_", lambda tensor: tensor)
    patcher.set(FakeTensor, "is_shared", lambda tensor: True)
    patcher.set(FakeTensor, "__reduce_ex__", _reduce)
    patcher.set(FakeTensor, "__copy__", deep_copies.shallow_copy)
    patcher.set(FakeTensor, "__deepcopy__", deep_copies.deep_copy)
    patcher.set(torch.Tensor, "__deepcopy__", deep_copies.deep_copy_of_real)


def _never_initialize_cuda(patcher: Patcher) -> None:
    patcher.set_if_present(fake_tensor, "init_gpu_context", lambda *_: None)
    patcher.set_if_present(fake_tensor, "init_cuda_context", lambda *_: None)
    # It logs every operation without a shape function, which is tried in other ways.
    patcher.set(fake_tensor.log, "exception", lambda *_, **__: None)


def _treat_like_plain_tensors(patcher: Patcher) -> None:
    # Parameters are swapped in place by module.to(); weak references to them do no harm here.
    def swap(one: torch.Tensor, other: torch.Tensor) -> None:
        slots = {*copyreg._slotnames(type(one)), *copyreg._slotnames(type(other))}  # type: ignore[attr-defined]
        values = [{name: getattr(each, name, _MISSING) for name in slots} for each in (one, other)]
        one.__class__, other.__class__ = other.__class__, one.__class__
        one.__dict__, other.__dict__ = other.__dict__, one.__dict__
        for each, found in zip((other, one), values):
            for name, value in found.items():
                if value is not _MISSING:
                    setattr(each, name, value)
        torch._C._swap_tensor_impl(one, other)

    patcher.set(torch.utils, "swap_tensors", swap)
    if "FakeTensor" not in inspect.getsource(torch.nn.Module._apply):
        patcher.set(torch.__future__, "_swap_module_params_on_conversion", True)
    patcher.set(FakeTensor, "data", property(_data, _set_data))
    # Optimizers and clip_grad_norm_ choose their implementation by the exact type.
    from torch.optim import optimizer
    from torch.utils import _foreach_utils

    for owner in (optimizer, _foreach_utils):
        patcher.set(
            owner,
            "_foreach_supported_types",
            [*owner._foreach_supported_types, FakeTensor],
        )


_MISSING = object()
_REAL_DATA = torch._C.TensorBase.data


def _data(tensor: FakeTensor) -> Any:
    return _REAL_DATA.__get__(tensor)


def _set_data(tensor: FakeTensor, new: torch.Tensor) -> None:
    """`tensor.data = new` exchanges what is behind the object; its attributes must follow."""
    if not isinstance(new, FakeTensor):
        new = new.detach()  # The modes make it a fake tensor.
    _REAL_DATA.__set__(tensor, new)
    tensor.fake_device = new.fake_device
    forget(tensor)
    known = known_value(new)
    if known is not None:
        set_known(tensor, known, is_assumed(new))


def _answer_reads(patcher: Patcher, answers: Answers) -> None:
    def numpy(tensor: FakeTensor, *, force: bool = False) -> Any:
        if not force:
            if tensor.requires_grad:
                raise RuntimeError(
                    "Can't call numpy() on Tensor that requires grad. Use "
                    "tensor.detach().numpy() instead."
                )
            if tensor.device.type != "cpu":
                raise TypeError(
                    f"can't convert {tensor.device} device type tensor to numpy. Use "
                    "Tensor.cpu() to copy the tensor to host memory first."
                )
        if tensor.dtype == torch.bfloat16:
            raise TypeError("Got unsupported ScalarType BFloat16")
        return answers.numpy(tensor)

    def array(tensor: FakeTensor, dtype: Any = None, *_: Any, **__: Any) -> Any:
        values = numpy(tensor)
        return values if dtype is None else values.astype(dtype, copy=False)

    def formatted(tensor: FakeTensor, spec: str) -> str:
        if tensor.dim() == 0:
            return format(tensor.item(), spec)
        return format(repr(tensor), spec)

    patcher.set(FakeTensor, "numpy", numpy)
    patcher.set(FakeTensor, "__array__", array)
    patcher.set(FakeTensor, "tolist", answers.tolist_method())
    patcher.set(FakeTensor, "__format__", formatted)
    patcher.set(FakeTensor, "__repr__", _represented)


def _represented(tensor: FakeTensor, *_: Any, **__: Any) -> str:
    """As torch prints a tensor, without its values."""
    gradient = ", requires_grad=True" if tensor.requires_grad else ""
    return (
        f"tensor(..., device='{tensor.device}', size={tuple(tensor.shape)}, "
        f"dtype={tensor.dtype}{gradient})"
    )


# Of tensors in host memory, which have none: compiled code that reads there fails, and changes
# nothing.
_NOWHERE = 1 << 56


def _answer_addresses(patcher: Patcher, device: Device) -> None:
    """Programs recognize shared memory by addresses: they are the simulated ones."""
    real = torch.UntypedStorage.data_ptr

    def of_storage(storage: torch.UntypedStorage) -> int:
        address = device.address_of(storage)
        if address:
            return address
        is_fake = storage.device.type == "meta"
        return _NOWHERE + int(storage._cdata) if is_fake else int(real(storage))

    def of_tensor(tensor: FakeTensor) -> int:
        storage = tensor.untyped_storage()
        address = device.address_of(storage) or _NOWHERE + storage._cdata
        return int(address + tensor.storage_offset() * tensor.element_size())

    patcher.set(torch.UntypedStorage, "data_ptr", of_storage)
    patcher.set(FakeTensor, "data_ptr", of_tensor)


def _follow_resized_storages(patcher: Patcher, device: Device) -> None:
    real = torch.UntypedStorage.resize_

    def resize(storage: torch.UntypedStorage, size: int) -> Any:
        is_known = device.knows(storage)
        result = real(storage, size)
        if is_known:
            device.resize(storage, size, "resize_")
        return result

    patcher.set(torch.UntypedStorage, "resize_", resize)


def _skip_pinning(patcher: Patcher) -> None:
    """Pinned memory is host memory: a tensor that should be pinned is used as it is."""
    patcher.set(torch.Tensor, "pin_memory", lambda tensor, device=None: pin(tensor))
    patcher.set(torch.Tensor, "is_pinned", lambda tensor, device=None: is_pinned(tensor))


def _reduce(tensor: FakeTensor, protocol: Any) -> Any:
    """Pickled: a tensor of zeros, on its device in an estimate and on the CPU elsewhere."""
    details = (tuple(tensor.shape), tensor.dtype, tensor.requires_grad, tensor.device.type)
    return _zeros, details


def _zeros(
    shape: tuple[int, ...], dtype: torch.dtype, requires_grad: bool, device: str
) -> torch.Tensor:
    is_estimated = torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.FAKE) is not None
    if is_estimated and device == "cuda":
        return torch.zeros(shape, dtype=dtype, device=device, requires_grad=requires_grad)
    with outside_modes():
        zeros = torch.zeros((), dtype=dtype).expand(shape).contiguous()
        return zeros.requires_grad_(requires_grad)
