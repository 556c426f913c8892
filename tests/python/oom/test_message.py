"""What torch's own text says about a failure."""

from __future__ import annotations

import pytest
from gpumemprof.failure.message import figures_of, is_memory_failure, sentence_of

GIB = 1 << 30
TEXT = (
    "CUDA out of memory. Tried to allocate {wanted}. GPU 1 has a total capacity of 139.81 GiB of "
    "which {free} is free. {others}Including non-PyTorch memory, this process has {process} memory "
    "in use. {allowed}Of the allocated memory {allocated} is allocated by PyTorch, and "
    "{unallocated} is reserved by PyTorch but unallocated. If reserved but unallocated memory is"
)


def text(**figures: str) -> str:
    usual = {
        "wanted": "6.00 GiB",
        "free": "1.00 GiB",
        "others": "",
        "process": "138.00 GiB",
        "allowed": "",
        "allocated": "137.00 GiB",
        "unallocated": "100.00 MiB",
    }
    return TEXT.format(**{**usual, **figures})


def test_reads_every_figure() -> None:
    seen = figures_of(
        text(others="Process 77 has 3.00 GiB memory in use. ", allowed="5.00 GiB allowed; ")
    )
    assert seen.device == 1
    assert seen.wanted == 6 * GIB
    assert seen.free == GIB
    assert seen.process == 138 * GIB
    assert seen.others == 3 * GIB
    assert seen.allowed == 5 * GIB
    assert seen.allocated == 137 * GIB
    assert seen.unallocated == 100 << 20


@pytest.mark.parametrize(
    ("figures", "expected"),
    [
        ({"wanted": "400.00 GiB"}, "larger than the card"),
        ({"free": "100.00 GiB", "allowed": "5.00 GiB allowed; "}, "limit"),
        ({"unallocated": "9.00 GiB"}, "fragmentation"),
        ({"others": "Process 7 has 90.00 GiB memory in use. "}, "other processes"),
        ({"allocated": "20.00 GiB"}, "outside PyTorch's pool"),
        ({}, "true shortage"),
    ],
)
def test_names_the_likely_cause(figures: dict[str, str], expected: str) -> None:
    assert expected in sentence_of(text(**figures))


def test_says_nothing_without_figures() -> None:
    assert sentence_of("out of memory") == ""


@pytest.mark.parametrize(
    "words",
    [
        "CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported",
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
        "NCCL error in: ProcessGroupNCCL.cpp:94, unhandled cuda error, Last error:\n"
        "Cuda failure 2 'out of memory'",
        "NCCL error in: NCCLUtils.hpp:268, unhandled cuda error, NCCL version 2.21.5\n"
        "ncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\n"
        "Failed to CUDA calloc async 608 bytes",
        "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: "
        "you tried to allocate 8000000000000 bytes. Error code 12 (Cannot allocate memory)",
    ],
)
def test_recognizes_failures_that_torchs_allocator_does_not_raise(words: str) -> None:
    assert is_memory_failure(RuntimeError(words))


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("CUDA error: device-side assert triggered"),
        ValueError("CUDA error: out of memory"),
        RuntimeError("mat1 and mat2 shapes cannot be multiplied"),
        KeyError("out of memory"),
    ],
)
def test_leaves_other_failures_alone(error: Exception) -> None:
    assert not is_memory_failure(error)


def test_survives_an_exception_whose_text_fails() -> None:
    class BrokenError(RuntimeError):
        def __str__(self) -> str:
            raise ZeroDivisionError

    assert not is_memory_failure(BrokenError())
