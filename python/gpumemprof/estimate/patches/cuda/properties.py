"""Which devices there are, and what they can do."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Callable

import torch

from gpumemprof.errors import Error
from gpumemprof.estimate.engine.device import Device, torch_release
from gpumemprof.estimate.patches.patcher import Patcher

__all__ = ["install"]

# Where the build has none.
_CUDA_VERSION = "12.8"
_CUDNN_VERSION = 91900
_CUDNN_VERSION_BEFORE_2_11 = 91002


def install(patcher: Patcher, device: Device) -> None:
    _answer_torch_cuda(patcher, device)
    _answer_accelerator(patcher, device)
    _answer_build(patcher, device)


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


# By compute capability: threads of a multiprocessor, and its shared memory in KiB.
_MULTIPROCESSORS = {
    (7, 0): (2048, 96),
    (7, 5): (1024, 64),
    (8, 0): (2048, 164),
    (8, 6): (1536, 100),
    (8, 9): (1536, 100),
    (9, 0): (2048, 228),
    (10, 0): (2048, 228),
    (12, 0): (1536, 100),
}


class _Properties(SimpleNamespace):
    def __repr__(self) -> str:
        return (
            f"_CudaDeviceProperties(name='{self.name}', major={self.major}, minor={self.minor}, "
            f"total_memory={self.total_memory >> 20}MB, "
            f"multi_processor_count={self.multi_processor_count})"
        )

    def __getattr__(self, name: str) -> Any:
        """A property of a newer release that is not known of any card."""
        kind = getattr(torch._C, "_CudaDeviceProperties", None)
        if name.startswith("_") or not hasattr(kind, name):
            raise AttributeError(f"'_CudaDeviceProperties' object has no attribute '{name}'")
        return 0


def _properties(device: Device) -> _Properties:
    card = device.card
    threads, shared = _MULTIPROCESSORS.get(card.capability, (2048, 228))
    return _Properties(
        name=card.name,
        major=card.capability[0],
        minor=card.capability[1],
        total_memory=card.total_bytes,
        multi_processor_count=card.multiprocessors,
        max_threads_per_block=1024,
        max_threads_per_multi_processor=threads,
        regs_per_multiprocessor=65536,
        shared_memory_per_block=48 << 10,
        shared_memory_per_block_optin=(shared if shared in (64, 96) else shared - 1) << 10,
        shared_memory_per_multiprocessor=shared << 10,
        L2_cache_size=_cache_bytes(card.name),
        gcnArchName="",
        warp_size=32,
        uuid="00000000-0000-0000-0000-000000000000",
    )


def _answer_torch_cuda(patcher: Patcher, device: Device) -> None:
    properties = _properties(device)
    major, minor = device.card.capability

    def index_of(which: Any) -> int:
        if which is None:
            return device.index
        index = which if isinstance(which, int) else torch.device(which).index
        if index is None or index < 0:
            return device.index
        if index >= device.count:
            has = "one device" if device.count == 1 else f"{device.count} devices"
            raise RuntimeError(
                f"CUDA error: invalid device ordinal (the estimate has {has}; cuda:{index} does "
                "not exist)"
            )
        return int(index)

    def exchange(which: Any) -> int:
        before, device.index = device.index, index_of(which)
        return before

    def set_device(device: Any) -> None:
        exchange(device)

    def of_device(value: Any) -> Any:
        # Named as torch names it: programs write `device=`.
        def answer(device: Any = None, *_: Any, **__: Any) -> Any:
            index_of(device)
            return value

        return answer

    answers = {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "_is_compiled": lambda: True,
        "init": lambda: None,
        "_lazy_init": lambda: None,
        "_lazy_call": lambda call, **_: None,
        "device_count": lambda: device.count,
        "_device_count_nvml": lambda: device.count,
        "current_device": lambda: device.index,
        "set_device": set_device,
        "_exchange_device": exchange,
        "_maybe_exchange_device": lambda which: exchange(which),  # torch.compile tells them apart
        "synchronize": lambda *_, **__: None,
        "ipc_collect": lambda: None,
        "get_device_name": of_device(device.card.name),
        "get_device_properties": of_device(properties),
        "get_device_capability": of_device((major, minor)),
        "_get_device_properties": of_device(properties),
        "is_bf16_supported": lambda *_, **__: major >= 8,
        "is_tf32_supported": lambda: major >= 8,
        "get_arch_list": lambda: [f"sm_{major}{minor}"],
        "get_gencode_flags": lambda: f"-gencode compute=compute_{major}{minor}",
        "can_device_access_peer": lambda *_, **__: False,
        "get_sync_debug_mode": lambda: 0,
        "set_sync_debug_mode": lambda *_, **__: None,
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
    _answer_native(patcher, device, exchange)


def _answer_native(patcher: Patcher, device: Device, exchange: Callable[[Any], int]) -> None:
    for name, answer in {
        "_cuda_isInBadFork": lambda: False,
        "_cuda_getDeviceCount": lambda: device.count,
        "_cuda_getDevice": lambda: device.index,
        "_cuda_setDevice": lambda which: exchange(which) and None,
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
        "device_count": lambda: device.count,
        "current_accelerator": lambda *_, **__: torch.device("cuda"),
        "current_device_index": lambda: device.index,
        "current_device_idx": lambda: device.index,
        "set_device_index": lambda device: torch.cuda.set_device(device),
        "set_device_idx": lambda device: torch.cuda.set_device(device),
        "synchronize": lambda *_, **__: None,
    }.items():
        patcher.set_if_present(accelerator, name, answer)
    for name, answer in {
        "_get_accelerator": lambda *_, **__: torch.device("cuda"),
        "_accelerator_getAccelerator": lambda: torch.device("cuda"),
        "_accelerator_synchronizeDevice": lambda *_: None,
    }.items():
        patcher.set_if_present(torch._C, name, answer)


def _answer_build(patcher: Patcher, device: Device) -> None:
    """Builds without CUDA look like builds with it."""
    if torch.version.cuda is None:
        patcher.set(torch.version, "cuda", _CUDA_VERSION)
        for name in ("_set_linalg_preferred_backend", "_set_blas_preferred_backend", "_cuda_sleep"):
            patcher.set(torch._C, name, lambda *_: None)
    patcher.set(torch.backends.cuda, "is_built", lambda: True)
    patcher.set(torch.backends.cudnn, "is_available", lambda: True)
    if _cudnn_version(device) is None:
        usual = _CUDNN_VERSION if torch_release() >= (2, 11) else _CUDNN_VERSION_BEFORE_2_11
        patcher.set(torch.backends.cudnn, "version", lambda: usual)
    patcher.set(torch.backends.cudnn, "is_acceptable", lambda tensor: tensor.is_cuda)
    # The real one asks the driver, device by device.
    patcher.set(torch.backends.cuda, "cufft_plan_cache", _PlanCache())


def _cudnn_version(device: Device) -> int | None:
    try:
        return torch.backends.cudnn.version()  # type: ignore[no-any-return]
    except RuntimeError as error:
        major, minor = device.card.capability
        raise Error(
            f"this torch, built with CUDA {torch.version.cuda}, does not run on "
            f"the {device.card.title}, whose compute capability is {major}.{minor}",
            "environment",
            "",
            "predict with a torch for an older CUDA, or another card with --gpu",
        ) from error


class _PlanCache:
    """Plans of cuFFT: their memory is not PyTorch's."""

    def __init__(self) -> None:
        self.size = 0
        self.max_size = 4096

    def __getitem__(self, device: Any) -> _PlanCache:
        return self

    def clear(self) -> None:
        pass
