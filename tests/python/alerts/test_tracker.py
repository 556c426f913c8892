"""MemoryTracker on CPU tensors, and on readings with made-up times."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import time
import tracemalloc
import warnings
from pathlib import Path
from typing import Any

import gpumemprof
import pytest
from gpumemprof.alerts.condition import parse
from gpumemprof.alerts.growth import GrowthMeter
from gpumemprof.alerts.reading import Reading
from gpumemprof.alerts.rule import Rule
from gpumemprof.alerts.timeline import Timeline

torch = pytest.importorskip("torch")

MIB = 1 << 20
DAY_S = 24 * 60 * 60


def block(mib: int) -> Any:
    return torch.empty(mib * MIB, dtype=torch.uint8)


def made_up(time_s: float, allocated: int, peak: int | None = None) -> Reading:
    return Reading(
        time_s, 1e9 + time_s, allocated, allocated, peak or allocated, allocated, peak or allocated,
        allocated,
    )  # fmt: skip


def test_a_spike_shorter_than_the_interval_fires() -> None:
    seen: list[gpumemprof.Alert] = []
    tracker = gpumemprof.MemoryTracker(
        "cpu", interval=0.2, alerts="allocated>150MiB", callback=seen.append
    )
    with tracker:
        kept = block(10)
        time.sleep(0.5)
        del kept
        block(200)  # freed at once
        time.sleep(0.5)
    assert [alert.condition for alert in seen] == ["allocated>150MiB"]
    assert seen[0].value >= 200 * MIB
    statistics = tracker.statistics()
    assert statistics["peak_allocated"] >= 200 * MIB
    assert statistics["alerts"] == 1
    assert max(point.allocated_max or 0 for point in tracker.timeline) >= 200 * MIB


def test_what_is_reserved_for_cpu_tensors_is_unknown() -> None:
    with gpumemprof.MemoryTracker("cpu", interval=30) as tracker:
        block(20)
    statistics = tracker.statistics()
    assert statistics["peak_allocated"] >= 20 * MIB
    assert statistics["peak_reserved"] is None
    assert {point.reserved_max for point in tracker.timeline} == {None}


def test_the_last_interval_counts_even_if_the_tracker_stops_at_once() -> None:
    with gpumemprof.MemoryTracker("cpu", interval=30, alerts="allocated>150MiB") as tracker:
        block(200)
    assert len(tracker.alerts) == 1


def test_a_condition_may_be_added_later_with_its_own_callback() -> None:
    first: list[gpumemprof.Alert] = []
    own: list[gpumemprof.Alert] = []
    with gpumemprof.MemoryTracker("cpu", interval=30, callback=first.append) as tracker:
        tracker.alert("allocated>100MiB", own.append)
        block(120)
    assert len(own) == len(first) == 1


def test_a_share_of_the_card_is_unknown_for_cpu_tensors() -> None:
    with pytest.raises(gpumemprof.UsageError, match="not known"):
        gpumemprof.MemoryTracker("cpu", alerts="headroom<5%")
    for condition in ("reserved>1GiB", "fragmentation>30%", "retries>0"):
        with pytest.raises(gpumemprof.UsageError, match="have no pool"):
            gpumemprof.MemoryTracker("cpu", alerts=condition)
    tracker = gpumemprof.MemoryTracker("cpu")
    with tracker, pytest.raises(gpumemprof.UsageError, match="not known"):
        tracker.alert("allocated>90%")


@pytest.mark.parametrize("interval", [0, -1, float("nan"), float("inf"), "1"])
def test_an_interval_is_a_positive_number(interval: Any) -> None:
    with pytest.raises(gpumemprof.UsageError, match="interval"):
        gpumemprof.MemoryTracker("cpu", interval=interval)


def test_a_callback_that_fails_is_one_warning_and_not_an_error() -> None:
    def fail(alert: gpumemprof.Alert) -> None:
        raise KeyError("no")

    with pytest.warns(gpumemprof.RecordingWarning, match="callback failed"):  # noqa: SIM117
        with gpumemprof.MemoryTracker("cpu", interval=30, alerts="allocated>100MiB", callback=fail):
            block(120)


def test_starting_and_stopping_twice_does_nothing() -> None:
    tracker = gpumemprof.MemoryTracker("cpu")
    assert tracker.start() is tracker.start()
    assert tracker.is_tracking
    tracker.stop()
    tracker.stop()
    assert not tracker.is_tracking


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_can_stop_a_tracker_of_its_parent() -> None:
    tracker = gpumemprof.MemoryTracker("cpu", interval=0.05).start()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        tracker.stop()
        os._exit(0 if not tracker.is_tracking else 1)
    assert os.waitpid(child, 0)[1] == 0
    tracker.stop()


def test_alerts_are_annotations_of_the_recording(tmp_path: Path) -> None:
    path = tmp_path / "run.gmp"
    with gpumemprof.record(path, cpu=True):  # noqa: SIM117
        with gpumemprof.MemoryTracker("cpu", interval=30, alerts="allocated>100MiB"):
            block(120)
    converted = tmp_path / "run.pickle"
    subprocess.run(
        [sys.executable, "-m", "gpumemprof", "convert", "--to", "torch-snapshot", path, converted],
        check=True,
        capture_output=True,
    )
    snapshot = pickle.loads(converted.read_bytes())
    names = [row["name"] for row in snapshot["external_annotations"]]
    assert [name for name in names if name.startswith("alert: allocated of cpu is")]


def test_a_day_of_readings_takes_bounded_memory_and_keeps_every_peak() -> None:
    tracker = gpumemprof.MemoryTracker("cpu", timeline_points=512)
    tracker._rules.append(Rule(parse("allocated>900MiB"), "cpu", 60.0))

    def observe(first_s: int, last_s: int) -> None:
        for second in range(first_s, last_s):
            # A spike for one reading, once an hour.
            peak = 1000 * MIB if second % 3600 == 1800 else None
            tracker._observe(made_up(float(second), 100 * MIB + second % 7, peak))

    observe(0, 3600)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    observe(3600, DAY_S)
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 512 * 1024
    points = tracker.timeline
    assert len(points) <= 512
    assert points[-1].timestamp == 1e9 + DAY_S - 1
    assert sum(point.allocated_max == 1000 * MIB for point in points) == 24
    assert len(tracker.alerts) == 24
    assert tracker.statistics()["samples"] == DAY_S


def test_growth_is_that_of_the_floor() -> None:
    def grow(level: Any) -> float | None:
        meter = GrowthMeter()
        for tenth in range(1200):
            meter.add(tenth / 10, level(tenth / 10))
        return meter.per_minute()

    # 60 MiB a minute, under swings of 500 MiB.
    leak = grow(lambda s: int(s * MIB) + (500 * MIB if int(s * 10) % 10 else 0))
    assert leak == pytest.approx(60 * MIB, rel=0.25)
    assert grow(lambda s: 500 * MIB if int(s) % 2 else 0) == 0
    # One jump in the first seconds, as by the optimizer's state.
    assert grow(lambda s: 100 * MIB if s < 8 else 800 * MIB) == 0
    assert grow(lambda s: int(1000 * MIB - s * MIB)) == 0
    assert GrowthMeter().per_minute() is None


def test_a_timeline_of_few_readings_keeps_them_all() -> None:
    timeline = Timeline(16)
    for second in range(10):
        timeline.add(made_up(second, second))
    assert [point.allocated_max for point in timeline.points()] == list(range(10))
