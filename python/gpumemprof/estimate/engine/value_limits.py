"""How many values of a tensor are computed for real."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["limits", "values_decide"]


class _Limits:
    """Numbers of elements, by type and device."""

    def __init__(self) -> None:
        self.integers = 1 << 22  # such as the masks of a batch of waveforms
        self.floats = 4096  # on the device; nobody branches on weights and activations
        self.floats_on_cpu = 1 << 18  # there programs prepare their data
        self.is_raised = False


limits = _Limits()
_MOST_THAT_DECIDE = 1 << 23


@contextmanager
def values_decide() -> Iterator[None]:
    """Code whose values decide shapes, as those of boxes do: values of large tensors count too."""
    before = (limits.integers, limits.floats, limits.is_raised)
    limits.integers = limits.floats = _MOST_THAT_DECIDE
    limits.is_raised = True
    try:
        yield
    finally:
        limits.integers, limits.floats, limits.is_raised = before
