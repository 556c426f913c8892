"""Monitoring by CPUMemoryProfiler: no spike is missed, and nothing is left behind."""

from __future__ import annotations

import contextlib
import gc
import time
from pathlib import Path

import pytest
from gpumemprof import CPUMemoryProfiler, MemorySnapshot
from tensors import MB, tensor

torch = pytest.importorskip("torch")


def test_monitoring_misses_no_spike_however_short(profiler):
    with profiler:
        profiler.start_monitoring(interval=0.05)
        assert profiler.monitoring_active
        time.sleep(0.06)
        tensor(64 * MB)  # created and freed between two samples
        time.sleep(0.06)
    assert not profiler.monitoring_active
    base = profiler.snapshots[0].allocated_memory
    assert max(s.allocated_memory for s in profiler.snapshots) - base == 64 * MB
    samples = [s for s in profiler.snapshots if s.operation == "monitoring"]
    assert all(s.allocated_memory == base for s in samples)
    assert len(samples) >= 3
    times = [s.timestamp for s in profiler.snapshots]
    assert times == sorted(times)
    assert profiler.get_summary()["peak_memory_usage"] - base == 64 * MB
    assert profiler.get_summary()["snapshots_collected"] == len(profiler.snapshots)


def test_monitoring_starts_with_the_state_and_books_no_history_as_new(profiler):
    kept = tensor(2 * MB)
    profiler.start_monitoring(0.01)
    profiler.stop_monitoring()
    now = profiler._meter.now().allocated_bytes
    assert {s.allocated_memory for s in profiler.snapshots} == {now}
    profiler.stop_monitoring()  # a second call does no harm
    del kept


def test_the_newest_snapshots_are_kept_and_the_number_dropped_is_known(profiler, monkeypatch):
    monkeypatch.setattr("gpumemprof.profile.monitored_device._MOST_SNAPSHOTS", 20)
    seen = [MemorySnapshot(timestamp=float(number)) for number in range(50)]
    for snapshot in seen:
        profiler._add_snapshots([snapshot])
    assert len(profiler.snapshots) <= 20
    assert profiler.snapshots[-1] is seen[-1]
    assert profiler.snapshots_dropped + len(profiler.snapshots) == 50


def test_a_profiler_that_is_dropped_stops_its_monitor():
    profiler = CPUMemoryProfiler()
    profiler.start_monitoring(0.01)
    wait_until(lambda: "gpumemprof-mon" in _threads())
    del profiler
    gc.collect()
    wait_until(lambda: "gpumemprof-mon" not in _threads())


def wait_until(condition) -> None:
    for _ in range(500):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it never came true")


def _threads() -> list[str]:
    names = []
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # it may end in the meantime
            names.append((task / "comm").read_text().strip())
    return names
