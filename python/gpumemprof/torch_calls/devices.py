"""The device that a profiler is asked to profile."""

from __future__ import annotations

import importlib.util
from typing import Any, Callable

from gpumemprof.errors import NoCudaError, NotCudaError, UsageError

__all__ = ["cpu_device", "cuda_device", "synchronizer", "why_no_cuda"]

_CPU_HINT = "CPUMemoryProfiler profiles CPU tensors"

_TORCH_HINT = "install it with: pip install torch"


def why_no_cuda() -> str | None:
    """A sentence if CUDA memory cannot be profiled here; ``None`` if it can."""
    try:
        import torch
    except ImportError:
        return "torch is not installed"
    if not torch.cuda.is_available():
        return "torch sees no CUDA device"
    return None


def cuda_device(device: Any) -> Any:
    """The ``torch.device``, with an index, for None, a number, a string or a device.

    Raises:
        NoCudaError: there is no CUDA at all (also a ``RuntimeError``).
        UsageError: not CUDA, or no such device (also a ``ValueError``).
    """
    problem = why_no_cuda()
    if device is not None and not _is_cuda(device):
        hint = _CPU_HINT if _is_cpu(device) else _what_exists(problem)
        kind = UsageError if problem is None else NotCudaError
        raise kind(f"{device!r} is not a CUDA device", "usage", "", hint)
    if problem is not None:
        message = f"there is no CUDA memory to profile: {problem}"
        hint = _TORCH_HINT if importlib.util.find_spec("torch") is None else _CPU_HINT
        raise NoCudaError(message, "environment", "", hint)
    import torch

    if isinstance(device, int):
        index = device
    else:
        # Parsed by hand: torch rejects large numbers with an error message of its own.
        number = "" if device is None else str(device).partition(":")[2]
        index = int(number) if number else torch.cuda.current_device()
    torch.cuda.init()
    if not 0 <= index < torch.cuda.device_count():
        raise UsageError(f"there is no device cuda:{index}", "usage", "", _what_exists(None))
    return torch.device("cuda", index)


def _what_exists(problem: str | None) -> str:
    if problem is not None:
        return problem
    import torch

    count = torch.cuda.device_count()
    return "there is cuda:0" if count == 1 else f"there are cuda:0 to cuda:{count - 1}"


def _is_cpu(device: Any) -> bool:
    return str(getattr(device, "type", device)).split(":")[0] == "cpu"


def _is_cuda(device: Any) -> bool:
    if isinstance(device, int):
        return not isinstance(device, bool)
    name = str(device) if isinstance(device, str) or hasattr(device, "type") else ""
    kind, _, index = name.partition(":")
    return kind == "cuda" and (index.isdecimal() or not _)


def cpu_device(device: Any) -> Any:
    """The ``torch.device`` of the CPU.

    Raises:
        UsageError: another device was given (also a ``ValueError``).
        NoCudaError: torch is not installed (also a ``RuntimeError``).
    """
    if device is not None and not _is_cpu(device):
        hint = "GPUMemoryProfiler profiles CUDA devices"
        raise UsageError(f"{device!r} is not the CPU", "usage", "", hint)
    try:
        import torch
    except ImportError:
        raise NoCudaError(
            "there are no CPU tensors to profile: torch is not installed",
            "environment",
            "",
            _TORCH_HINT,
        ) from None
    return torch.device("cpu")


def synchronizer(device: Any) -> Callable[[], bool]:
    """Return a function that waits for the device; during graph capture it only returns False.

    Waiting, or any call to the driver, would break the capture.
    """
    import torch

    is_capturing = torch.cuda.is_current_stream_capturing
    synchronize = torch.cuda.synchronize

    def wait() -> bool:
        if is_capturing():
            return False
        synchronize(device)
        return True

    return wait
