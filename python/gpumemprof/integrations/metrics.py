"""The few figures of a device's memory that go to the loggers of other tools."""

from __future__ import annotations

import contextlib
from typing import Any

from gpumemprof.alerts.reading import Reading
from gpumemprof.alerts.source import DeviceSource

__all__ = ["MemoryMetrics", "named"]

_GIB = 1 << 30


def named(reading: Reading | None) -> dict[str, float]:
    """The figures by the names under which they are logged; what is unknown is left out.

    >>> sorted(named(Reading(0.0, 0.0, 0, 0, 1 << 29, 0, 1 << 30, 1 << 30)).items())
    [('memory/max_allocated(GiB)', 0.5), ('memory/max_reserved(GiB)', 1.0)]
    """
    if reading is None:
        return {}
    found = {
        "memory/max_allocated(GiB)": _gib(reading.allocated_peak),
        "memory/max_reserved(GiB)": _gib(reading.reserved_peak),
        "memory/headroom(GiB)": _gib(reading.headroom),
        "memory/num_alloc_retries": reading.retries,
    }
    return {name: float(value) for name, value in found.items() if value is not None}


def _gib(count: int | None) -> float | None:
    return None if count is None else count / _GIB


class MemoryMetrics:
    """What a device's memory did between two calls of `take`; peaks are exact.

    ::

        metrics = MemoryMetrics()
        for number, batch in enumerate(loader):
            train(batch)
            wandb.log({"loss": loss, **metrics.take()}, step=number)

    Args:
        device: an index, ``"cuda:0"``, ``"cpu"`` or a ``torch.device``; None for the current CUDA
            device, or for CPU tensors if there is no CUDA.

    Of CPU tensors only those count that are made from now on: torch does not say which are older.
    Make the metrics before the model, or expect less than a recording of the whole program has.
    """

    def __init__(self, device: Any = None) -> None:
        """Begin to count."""
        self._source = DeviceSource(device, watches_retries=True)
        self.device = self._source.name
        """The device's name."""
        self._source.take_interval()

    def take(self) -> dict[str, float]:
        """The figures since the last call, by name.

        >>> metrics.take()  # doctest: +SKIP
        {'memory/max_allocated(GiB)': 31.2, 'memory/max_reserved(GiB)': 33.0, ...}
        """
        return named(self._source.take_interval())

    def close(self) -> None:
        """Stop counting.

        >>> metrics.close()  # doctest: +SKIP
        """
        self._source.close()

    def __del__(self) -> None:
        """Stop counting."""
        with contextlib.suppress(Exception):
            self._source.close()
