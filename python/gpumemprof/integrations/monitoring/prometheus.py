"""The figures in Prometheus' form, through the package prometheus_client."""

from __future__ import annotations

import importlib.util
import threading
import time
from collections.abc import Iterator
from typing import Any

from gpumemprof.errors import EnvironmentProblem
from gpumemprof.integrations.monitoring.figures import (
    FIGURES,
    Figure,
    RecentPeaks,
    Sample,
    samples,
)
from gpumemprof.integrations.monitoring.scrape_server import ScrapeServer
from gpumemprof.live.watcher import Watcher

__all__ = ["RecordingCollector", "check_installed", "prometheus_name", "serve"]

# A scrape looks at the recordings itself. Where nobody scrapes, they are looked at so often, so
# that a later scrape has little left to read.
_LOOK_EVERY_S = 2.0
_LONGEST_LOOK_S = 1.0
_SEE_EVERY_S = 1.0
# Scrapes at the same moment share one look.
_SAME_LOOK_S = 0.1


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
            "run: pip install prometheus-client",
        )


def prometheus_name(figure: Figure) -> str:
    """As OpenTelemetry's rules translate it; without ``_total``, which the client adds.

    >>> prometheus_name(FIGURES["hw.gpu.memory.usage"])
    'hw_gpu_memory_usage_bytes'
    """
    name = figure.name.replace(".", "_")
    return name + {"By": "_bytes", "1": "_ratio", "s": "_seconds"}.get(figure.unit, "")


class RecordingCollector:
    """What prometheus_client asks at each scrape."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher
        self._recent = RecentPeaks()
        self._lock = threading.Lock()
        self._looked_at = float("-inf")

    def keep_up(self) -> None:
        """Read what is new in the recordings, unless that was done lately."""
        with self._lock:
            self._look(_LOOK_EVERY_S)

    def _look(self, least_age_s: float) -> None:
        if time.monotonic() - self._looked_at >= least_age_s:
            self._watcher.look(_LONGEST_LOOK_S)
            self._recent.note(self._watcher.recordings)
            self._looked_at = time.monotonic()

    def describe(self) -> list[Any]:
        """Nothing is known before the first scrape."""
        return []

    def collect(self) -> Iterator[Any]:
        """All figures now."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        with self._lock:
            self._look(_SAME_LOOK_S)
            found = list(samples(self._watcher.recordings, self._recent))
        by_figure: dict[str, list[Sample]] = {}
        for sample in found:
            by_figure.setdefault(sample.figure.name, []).append(sample)
        for name, figure in FIGURES.items():
            if name not in by_figure:
                continue
            labels = list(by_figure[name][0].labels)
            kind = CounterMetricFamily if figure.is_counter else GaugeMetricFamily
            family = kind(prometheus_name(figure), figure.text, labels=labels)
            for sample in by_figure[name]:
                family.add_metric([sample.labels[label] for label in labels], sample.value)
            yield family


def serve(watcher: Watcher, host: str, port: int) -> tuple[RecordingCollector, int]:
    """Answer scrapes in threads of their own; the port, which the system chooses for 0.

    Raises:
        OSError: the address cannot be used.
    """
    from prometheus_client import CollectorRegistry, make_wsgi_app

    collector = RecordingCollector(watcher)
    registry = CollectorRegistry()
    registry.register(collector)
    server = ScrapeServer(host, port, make_wsgi_app(registry))
    server.start()
    return collector, int(server.server_port)


def look_until(collector: RecordingCollector, is_over: Any) -> None:
    """Keep up with the recordings until the program has ended."""
    while not is_over():
        collector.keep_up()
        time.sleep(_SEE_EVERY_S)
