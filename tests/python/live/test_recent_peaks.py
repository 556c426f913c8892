"""The peak of the last minute, as metrics publish it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpumemprof.integrations.monitoring.figures import RecentPeaks, samples
from gpumemprof.live.figures import rows
from gpumemprof.live.watched import WatchedRecording
from live.growing import TRAINING, GrowingFile

ALLOCATED = "recent_peak_allocated_bytes"


class Looks:
    """A recording whose looks found these peaks."""

    def __init__(self) -> None:
        self.recording = WatchedRecording(Path("run.gmp"))
        self.peaks = RecentPeaks()

    def look(self, now: float, peak: int, allocated: int = 0) -> None:
        device: dict[str, Any] = {"device": "cuda:0", "allocated_bytes": allocated, ALLOCATED: peak}
        self.recording.report = {"devices": [device]}
        self.peaks.note([self.recording], now)

    def shown(self) -> int | None:
        return self.peaks.of(rows([self.recording])[0], ALLOCATED)


def test_a_spike_between_two_scrapes_is_kept_for_a_minute_and_then_forgotten() -> None:
    looks = Looks()
    looks.look(0.0, 900)  # the first large step
    assert looks.shown() == 900
    looks.look(61.0, 100)
    assert looks.shown() == 100
    looks.look(63.0, 700)
    for now in range(65, 123, 2):
        looks.look(float(now), 100)
        assert looks.shown() == 700  # whoever asks, and however often
        assert looks.shown() == 700
    looks.look(124.0, 100)
    assert looks.shown() == 100


def test_a_program_that_rests_holds_what_it_holds() -> None:
    looks = Looks()
    looks.look(0.0, 900, allocated=300)
    looks.peaks.note([looks.recording], 200.0)  # the same report: it has ended
    assert looks.shown() == 300


def test_no_peak_of_a_growing_recording_is_lost(tmp_path: Path) -> None:
    growing = GrowingFile(tmp_path / "train.gmp", TRAINING)
    watched, recent = WatchedRecording(growing.path), RecentPeaks()
    for _ in range(12):
        growing.grow(growing.size // 12 + 1)
        watched.look(60.0)
        recent.note([watched])
    found = {sample.figure.name: sample.value for sample in samples([watched], recent)}
    recent_peak = found["gpumemprof.memory.recent_peak_allocated"]
    assert recent_peak == found["gpumemprof.memory.peak_allocated"]
    assert found["gpumemprof.last_event.timestamp"] > 0
