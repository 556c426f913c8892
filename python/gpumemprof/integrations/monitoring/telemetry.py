"""The same figures for OpenTelemetry, in the program itself.

::

    from gpumemprof.integrations.monitoring.telemetry import instrument

    instrument()  # with the global meter provider

What this process is, such as its job, belongs to the provider's resource: `resource_attributes`.
"""

from __future__ import annotations

import functools
import os
import socket
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Union

from gpumemprof.errors import EnvironmentProblem
from gpumemprof.integrations.monitoring.figures import (
    FIGURES,
    INFO,
    Figure,
    RecentPeaks,
    Sample,
    samples,
    watcher_of,
)
from gpumemprof.recorder.rank_facts import launcher_facts
from gpumemprof.recorder.run_settings import own_words

__all__ = ["instrument", "resource_attributes"]

_Attributes = dict[str, Union[str, int]]

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


def resource_attributes() -> _Attributes:
    """What this process is, for the resource of a meter provider; without what is unknown.

    >>> resource_attributes()["process.pid"] == os.getpid()
    True
    """
    from gpumemprof import __version__

    torch = sys.modules.get("torch")
    script = (own_words() or [""])[0]
    found: _Attributes = {
        "host.name": socket.gethostname(),
        "process.pid": os.getpid(),
        "process.command": "python -c" if script == "-c" else Path(script).name,
        "gpumemprof.version": __version__,
        "gpumemprof.torch.version": str(getattr(torch, "__version__", "")),
        "gpumemprof.job": launcher_facts(os.environ).get("job", ""),
    }
    return {name: value for name, value in found.items() if value != ""}


def _attributes(sample: Sample) -> _Attributes:
    """As OpenTelemetry names them."""
    labels = dict(sample.labels)
    attributes: _Attributes = {"hw.id": labels.pop("hw_id")}
    if pid := labels.pop("pid"):
        attributes["process.pid"] = int(pid)
    attributes.update({name: value for name, value in labels.items() if value})
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
        if figure.name == INFO:  # the resource says it
            continue
        make = meter.create_observable_gauge
        if figure.is_counter:
            make = meter.create_observable_counter
        elif figure.name in _UP_DOWN:
            make = meter.create_observable_up_down_counter
        make(figure.name, [functools.partial(observe, figure)], figure.unit, figure.text)
    return meter
