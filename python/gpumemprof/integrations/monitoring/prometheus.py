"""The figures in Prometheus' form, through the package prometheus_client."""

from __future__ import annotations

import importlib.util
import threading
import time
from collections.abc import Iterator
from typing import Any

from gpumemprof.errors import EnvironmentProblem
from gpumemprof.integrations.monitoring.figures import FIGURES, Figure, samples
from gpumemprof.live.watcher import Watcher

__all__ = ["RecordingCollector", "check_installed", "prometheus_name", "serve"]

# Looks at recordings between two scrapes, so that a scrape has little left to read.
_LOOK_EVERY_S = 1.0
_LONGEST_LOOK_S = 1.0


def check_installed() -> None:
    """Fail early, in one sentence.

    Raises:
        EnvironmentProblem: prometheus_client is not installed.
    """
    if importlib.util.find_spec("prometheus_client") is None:
        raise EnvironmentProblem(
            "--metrics needs prometheus_client, which is not installed",
            "environment",
            "",
            "run: pip install 'gpumemprof[metrics]'",
        )


def prometheus_name(figure: Figure) -> str:
    """As OpenTelemetry's rules translate it; without ``_total``, which the client adds.

    >>> prometheus_name(FIGURES["hw.gpu.memory.usage"])
    'hw_gpu_memory_usage_bytes'
    """
    name = figure.name.replace(".", "_")
    return name + {"By": "_bytes", "1": "_ratio"}.get(figure.unit, "")


class RecordingCollector:
    """What prometheus_client asks at each scrape."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher
        self._lock = threading.Lock()

    def look(self) -> None:
        """Read what is new in the recordings."""
        with self._lock:
            self._watcher.look(_LONGEST_LOOK_S)

    def describe(self) -> list[Any]:
        """Nothing is known before the first scrape."""
        return []

    def collect(self) -> Iterator[Any]:
        """All figures now."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        with self._lock:
            self._watcher.look(_LONGEST_LOOK_S)
            found = list(samples(self._watcher.recordings))
        for figure in FIGURES.values():
            mine = [sample for sample in found if sample.figure is figure]
            if not mine:
                continue
            names = list(mine[0].labels)
            kind = CounterMetricFamily if figure.is_counter else GaugeMetricFamily
            family = kind(prometheus_name(figure), figure.text, labels=names)
            for sample in mine:
                family.add_metric([sample.labels[name] for name in names], sample.value)
            yield family


def serve(watcher: Watcher, host: str, port: int) -> tuple[RecordingCollector, int]:
    """Answer scrapes in threads of their own; the port, which the system chooses for 0.

    Raises:
        OSError: the address cannot be used.
    """
    from prometheus_client import CollectorRegistry, start_http_server

    collector = RecordingCollector(watcher)
    registry = CollectorRegistry()
    registry.register(collector)
    server, _ = start_http_server(port, host, registry)
    return collector, int(server.server_port)


def look_until(collector: RecordingCollector, is_over: Any) -> None:
    """Keep up with the recordings until the program has ended."""
    while not is_over():
        collector.look()
        time.sleep(_LOOK_EVERY_S)
