"""Which devices there are, and what they can do."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch

from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.patches.patcher import Patcher

__all__ = ["install"]

_CUDA_VERSION = "12.8"  # where the build has none
_CUDNN_VERSION = 91002


def install(patcher: Patcher, device: Device) -> None:
    _answer_torch_cuda(patcher, device)
    _answer_accelerator(patcher, device)
    _answer_build(patcher)
    _answer_old_types(patcher)


# MiB, by a part of the card's name; the first that fits.
_CACHES = {
    "B200": 126,
    "H200": 60,
    "GH200": 60,
    "H100": 50,
    "A100": 40,
    "L40": 96,
    "L4": 48,
    "RTX PRO 6000": 128,
    "RTX 6000 Ada": 96,
    "RTX 5090": 96,
    "RTX 4090": 72,
    "RTX 4080": 64,
    "T4": 4,
}
_OLDER_CACHE = 6


def _cache_bytes(name: str) -> int:
    found = next((size for card, size in _CACHES.items() if card in name), _OLDER_CACHE)
    return found << 20


def _properties(device: Device) -> SimpleNamespace:
    card = device.card
    return SimpleNamespace(
        name=card.name,
        major=card.capability[0],
        minor=card.capability[1],
        total_memory=card.total_bytes,
        multi_processor_count=card.multiprocessors,
        max_threads_per_multi_processor=2048,
        regs_per_multiprocessor=65536,
        shared_memory_per_block=49152,
        shared_memory_per_block_optin=232448 if card.capability[0] >= 9 else 166912,
        shared_memory_per_multiprocessor=233472 if card.capability[0] >= 9 else 167936,
        L2_cache_size=_cache_bytes(card.name),
        gcnArchName="",
        warp_size=32,
        is_integrated=0,
        is_multi_gpu_board=0,
        pci_bus_id=0,
        pci_device_id=0,
        pci_domain_id=0,
        uuid="00000000-0000-0000-0000-000000000000",
    )


def _answer_torch_cuda(patcher: Patcher, device: Device) -> None:
    properties = _properties(device)
    major, minor = device.card.capability

    def index_of(which: Any) -> int:
        if which is None:
            return device.index
        index = which if isinstance(which, int) else torch.device(which).index
        if index is not None and index not in (-1, device.index):
            raise RuntimeError(
                "CUDA error: invalid device ordinal (the estimate has one device; cuda:"
                f"{index} does not exist)"
            )
        return device.index

    def of_device(value: Any) -> Any:
        def answer(which: Any = None, *_: Any, **__: Any) -> Any:
            index_of(which)
            return value

        return answer

    answers = {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "_is_compiled": lambda: True,
        "init": lambda: None,
        "_lazy_init": lambda: None,
        "_lazy_call": lambda call, **_: None,
        "device_count": lambda: 1,
        "_device_count_nvml": lambda: 1,
        "current_device": lambda: device.index,
        "set_device": lambda which: index_of(which) and None,
        "_exchange_device": lambda which: device.index,
        "_maybe_exchange_device": lambda which: device.index,
        "synchronize": lambda *_: None,
        "ipc_collect": lambda: None,
        "get_device_name": of_device(device.card.name),
        "get_device_properties": of_device(properties),
        "get_device_capability": of_device((major, minor)),
        "_get_device_properties": of_device(properties),
        "is_bf16_supported": lambda *_, **__: major >= 8,
        "is_tf32_supported": lambda: major >= 8,
        "get_arch_list": lambda: [f"sm_{major}{minor}"],
        "get_gencode_flags": lambda: f"-gencode compute=compute_{major}{minor}",
        "can_device_access_peer": lambda *_: False,
        "get_sync_debug_mode": lambda: 0,
        "set_sync_debug_mode": lambda *_: None,
        "utilization": of_device(0),
        "memory_usage": of_device(0),
        "temperature": of_device(0),
        "power_draw": of_device(0),
        "clock_rate": of_device(0),
        "current_blas_handle": lambda: 0,
        "current_solver_handle": lambda: 0,
        "list_gpu_processes": of_device("no processes are running"),
    }
    for name, answer in answers.items():
        patcher.set(torch.cuda, name, answer)
    patcher.set(torch.cuda, "_initialized", True)
    for name, answer in {
        "_cuda_isInBadFork": lambda: False,
        "_cuda_getDeviceCount": lambda: 1,
        "_cuda_getDevice": lambda: device.index,
        "_cuda_setDevice": lambda which: None,
        "_cuda_init": lambda: None,
        "_cuda_synchronize": lambda *_: None,
        "_cuda_hasPrimaryContext": lambda *_: False,
        "_cuda_clearCublasWorkspaces": lambda: device.release_persistent(
            lambda key: isinstance(key, tuple) and str(key[0]).startswith("cublas")
        ),
    }.items():
        patcher.set(torch._C, name, answer)


def _answer_accelerator(patcher: Patcher, device: Device) -> None:
    accelerator = getattr(torch, "accelerator", None)
    if accelerator is None:
        return
    for name, answer in {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_accelerator": lambda *_, **__: torch.device("cuda"),
        "current_device_index": lambda: device.index,
        "current_device_idx": lambda: device.index,
        "set_device_index": lambda *_: None,
        "set_device_idx": lambda *_: None,
        "synchronize": lambda *_: None,
    }.items():
        patcher.set_if_present(accelerator, name, answer)
    for name, answer in {
        "_get_accelerator": lambda *_, **__: torch.device("cuda"),
        "_accelerator_getAccelerator": lambda: torch.device("cuda"),
        "_accelerator_synchronizeDevice": lambda *_: None,
    }.items():
        patcher.set_if_present(torch._C, name, answer)


_OLD_TYPES = {
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


def _answer_old_types(patcher: Patcher) -> None:
    """torch.cuda.FloatTensor(2, 3) and tensor.type("torch.cuda.FloatTensor")."""

    def constructor(dtype: torch.dtype) -> Any:
        def make(*values: Any, **_: Any) -> torch.Tensor:
            if len(values) == 1 and not isinstance(values[0], int):
                return torch.as_tensor(values[0]).to("cuda", dtype)
            return torch.empty(values or (0,), dtype=dtype, device="cuda")

        return make

    def change(tensor: torch.Tensor, wanted: Any = None, *args: Any, **kwargs: Any) -> Any:
        name = wanted if isinstance(wanted, str) else ""
        if name.startswith("torch.cuda."):
            return tensor.to("cuda", _OLD_TYPES[name[len("torch.cuda.") :]])
        return real(tensor, *(() if wanted is None else (wanted,)), *args, **kwargs)

    for name, dtype in _OLD_TYPES.items():
        patcher.set(torch.cuda, name, constructor(dtype))
    real = patcher.set(torch.Tensor, "type", change)


def _answer_build(patcher: Patcher) -> None:
    """Builds without CUDA look like builds with it."""
    if torch.version.cuda is None:
        patcher.set(torch.version, "cuda", _CUDA_VERSION)
    patcher.set(torch.backends.cuda, "is_built", lambda: True)
    patcher.set(torch.backends.cudnn, "is_available", lambda: True)
    patcher.set(torch.backends.cudnn, "version", lambda: _CUDNN_VERSION)
    patcher.set(torch.backends.cudnn, "is_acceptable", lambda tensor: tensor.is_cuda)
