"""The same figures for OpenTelemetry, in the program itself.

::

    from gpumemprof.integrations.monitoring.telemetry import instrument

    instrument()  # with the global meter provider
"""

from __future__ import annotations

import functools
import os
import threading
import time
from collections.abc import Iterable
from typing import Any

from gpumemprof.errors import EnvironmentProblem
from gpumemprof.integrations.monitoring.figures import (
    FIGURES,
    Figure,
    RecentPeaks,
    Sample,
    samples,
    watcher_of,
)

__all__ = ["instrument"]

# All instruments are asked one after the other; one look serves them.
_SAME_LOOK_S = 0.25
_LONGEST_LOOK_S = 1.0
# As OpenTelemetry defines them.
_UP_DOWN = ("hw.gpu.memory.usage", "hw.gpu.memory.limit")


class _Recordings:
    """What this process, and those it started, record."""

    def __init__(self, process: int) -> None:
        self._watcher = watcher_of(process)
        self._recent = RecentPeaks()
        self._lock = threading.Lock()
        self._looked_at = float("-inf")
        self._found: list[Sample] = []

    def now(self) -> list[Sample]:
        with self._lock:
            if time.monotonic() - self._looked_at > _SAME_LOOK_S:
                self._watcher.look(_LONGEST_LOOK_S)
                self._recent.note(self._watcher.recordings)
                self._found = list(samples(self._watcher.recordings, self._recent))
                self._looked_at = time.monotonic()
            return self._found


def _attributes(sample: Sample) -> dict[str, str]:
    attributes = {name: value for name, value in sample.labels.items() if value and name != "hw_id"}
    attributes["hw.id"] = sample.labels["hw_id"]
    if sample.labels["device"].startswith("cuda"):
        attributes["hw.type"] = "gpu"
    return attributes


def instrument(meter_provider: Any = None) -> Any:
    """Publish the figures of what this process records, and of what its children record.

    >>> instrument()  # doctest: +SKIP

    Args:
        meter_provider: OpenTelemetry's global one by default.

    Returns:
        The meter.

    Raises:
        EnvironmentProblem: opentelemetry-api is not installed.
    """
    try:
        from opentelemetry import metrics
    except ImportError:
        raise EnvironmentProblem(
            "instrument() needs opentelemetry-api, which is not installed",
            "environment",
            "",
            "run: pip install opentelemetry-api",
        ) from None
    from gpumemprof import __version__

    provider = metrics.get_meter_provider() if meter_provider is None else meter_provider
    meter = provider.get_meter("gpumemprof", __version__)
    recordings = _Recordings(os.getpid())

    def observe(figure: Figure, _: Any) -> Iterable[Any]:
        return [
            metrics.Observation(sample.value, _attributes(sample))
            for sample in recordings.now()
            if sample.figure is figure
        ]

    for figure in FIGURES.values():
        make = meter.create_observable_gauge
        if figure.is_counter:
            make = meter.create_observable_counter
        elif figure.name in _UP_DOWN:
            make = meter.create_observable_up_down_counter
        make(figure.name, [functools.partial(observe, figure)], figure.unit, figure.text)
    return meter
