"""What an exception's own text says about memory: all that is known without an analysis."""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = ["Figures", "figures_of", "is_memory_failure", "request_of", "sentence_of"]

# Failures that PyTorch's allocator does not raise itself: the driver, a library, main memory.
_FAILURES = re.compile(
    r"CUDA error: out of memory"
    r"|CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation"
    r"|CUDA out of memory|HIP out of memory|XPU out of memory"
    r"|CU(BLAS|SOLVER|SPARSE|FFT)_(STATUS_)?ALLOC_FAILED"
    r"|CUDNN_STATUS_ALLOC_FAILED|CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED"
    r"|(NCCL|ncclUnhandledCudaError|ncclSystemError)[\s\S]*"
    r"(out of memory|Failed to CUDA (calloc|malloc|host alloc)|cuda (calloc|malloc) failed)"
    r"|can't allocate memory|[Cc]annot allocate memory|[Uu]nable to allocate .* for an array"
)
_NUMBER = r"(\d+(?:\.\d+)?) (bytes|[KMGT]iB)"
_UNITS = {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}


class Figures(NamedTuple):
    """Bytes from torch's text, rounded as it rounds; None where it says nothing."""

    device: int | None
    wanted: int | None
    total: int | None
    free: int | None
    process: int | None
    others: int | None
    allowed: int | None
    allocated: int | None
    unallocated: int | None


def _bytes(pattern: str, text: str) -> int | None:
    found = re.search(pattern.replace("#", _NUMBER), text)
    return None if found is None else round(float(found[1]) * _UNITS[found[2]])


def figures_of(text: str) -> Figures:
    """The figures in the text of torch's OutOfMemoryError.

    >>> figures_of("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total").wanted
    2147483648
    """
    device = re.search(r"GPU (\d+)", text)
    others = [
        round(float(number) * _UNITS[unit])
        for number, unit in re.findall(rf"Process \d+ has {_NUMBER} memory in use", text)
    ]
    return Figures(
        device=None if device is None else int(device[1]),
        wanted=_bytes("Tried to allocate #", text),
        total=_bytes("total capacity of #", text),
        free=_bytes("of which # is free", text),
        process=_bytes("this process has # memory in use", text),
        others=sum(others) if others else None,
        allowed=_bytes("# allowed", text),
        allocated=_bytes("# is allocated by PyTorch", text),
        unallocated=_bytes("# is reserved by PyTorch but unallocated", text),
    )


def request_of(text: str) -> str:
    """The size that was asked for, as torch writes it.

    >>> request_of("CUDA out of memory. Tried to allocate 2.00 GiB.")
    '2.00 GiB'
    """
    found = re.search(rf"[Tt]ried to allocate {_NUMBER}", text)
    return "" if found is None else f"{found[1]} {found[2]}"


def is_memory_failure(error: BaseException) -> bool:
    """Whether an exception says that memory ran out, whoever raised it.

    >>> is_memory_failure(RuntimeError("CUDA error: out of memory"))
    True
    >>> is_memory_failure(ValueError("out of memory is a book"))
    False
    """
    if isinstance(error, MemoryError):
        return True
    try:
        return isinstance(error, (RuntimeError, OSError)) and bool(_FAILURES.search(str(error)))
    except Exception:  # its own __str__ may fail
        return False


def sentence_of(text: str) -> str:
    """The likely cause, from torch's text alone; empty if it has no figures."""
    seen = figures_of(text)
    if seen.wanted is None:
        return ""
    if seen.total is not None and seen.wanted > seen.total:
        return "the request alone is larger than the card"
    if seen.allowed is not None and seen.free is not None and seen.free > seen.wanted:
        return "probably a limit on this process refused it while the card had room"
    if seen.unallocated is not None and seen.unallocated > seen.wanted:
        return "probably fragmentation: more than that was reserved and unused"
    if seen.others is not None and seen.others > seen.wanted:
        return "probably other processes on the card hold what would have sufficed"
    if None not in (seen.process, seen.allocated, seen.unallocated):
        outside = seen.process - seen.allocated - seen.unallocated  # type: ignore[operator]
        if outside > max(seen.wanted, 1 << 30):
            return "probably this process holds what would have sufficed outside PyTorch's pool"
    return "probably a true shortage"
