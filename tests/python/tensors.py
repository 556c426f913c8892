"""CPU tensors of exact sizes, for the tests of the profilers."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

MB = 1 << 20
KB = 1 << 10


def tensor(size: int) -> object:
    """A tensor of this many bytes."""
    return torch.empty(size, dtype=torch.uint8)
