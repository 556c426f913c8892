"""What metrics publish: the peak of the last minute, and what process they are of."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import gpumemprof
import pytest
from gpumemprof.integrations.monitoring import telemetry
from gpumemprof.integrations.monitoring.figures import FIGURES, INFO, RecentPeaks, Sample, samples
from gpumemprof.integrations.monitoring.prometheus import prometheus_name
from gpumemprof.live.figures import rows
from gpumemprof.live.watched import WatchedRecording
from live.growing import TRAINING, GrowingFile

ALLOCATED = "recent_peak_allocated_bytes"
PROGRAM = """
import torch
kept = torch.zeros(1000)
"""


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


def recorded(folder: Path, **environment: str) -> list[Sample]:
    (folder / "train.py").write_text(PROGRAM)
    words = ["-m", "gpumemprof", "run", "--cpu", "-o", "run.gmp", "train.py", "--lr", "1"]
    variables = {**os.environ, **environment}
    subprocess.run([sys.executable, *words], cwd=folder, env=variables, check=True)
    (path,) = folder.glob("run*.gmp")
    watched = WatchedRecording(path)
    watched.look(60.0)
    return list(samples([watched], RecentPeaks()))


def test_one_figure_says_what_a_process_is(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    job = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "TORCHELASTIC_RUN_ID": "night"}
    found = recorded(tmp_path, **job)
    (info,) = [sample for sample in found if sample.figure.name == INFO]
    (allocated,) = [
        sample for sample in found if sample.figure.name == "gpumemprof.memory.allocated"
    ]
    assert prometheus_name(FIGURES[INFO]) == "gpumemprof_info"
    assert (info.value, info.figure.is_counter) == (1, False)
    assert info.labels == {
        "version": gpumemprof.__version__,
        "torch": str(torch.__version__),
        "command": "train.py",
        "host": os.uname().nodename,
        "job_id": "night",
        "pid": allocated.labels["pid"],
        "rank": "1",
    }


def test_what_is_unknown_is_an_empty_label(tmp_path: Path) -> None:
    watched = WatchedRecording(tmp_path / "run.gmp")
    watched.report = {"devices": [{"device": "cuda:0", "last_time_ns": None}]}
    (info,) = samples([watched], RecentPeaks())
    assert info.labels["job_id"] == info.labels["torch"] == info.labels["pid"] == ""
    # Without a look, as before a recording's first event, there is nothing to say.
    watched.report = {}
    assert list(samples([watched], RecentPeaks())) == []


def test_opentelemetry_has_its_own_names() -> None:
    labels = {"device": "cuda:0", "hw_id": "GPU-1", "pid": "17", "rank": ""}
    sample = Sample(FIGURES["gpumemprof.memory.allocated"], 1.0, labels)
    assert telemetry._attributes(sample) == {
        "device": "cuda:0",
        "hw.id": "GPU-1",
        "hw.type": "gpu",
        "process.pid": 17,
    }


def test_the_resource_says_what_the_process_is(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "argv", ["jobs/train.py", "--token", "secret"])
    found = telemetry.resource_attributes()
    assert found["process.pid"] == os.getpid()
    assert found["process.command"] == "train.py"
    assert found["gpumemprof.version"] == gpumemprof.__version__
    assert "gpumemprof.job" not in found
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("SLURM_JOB_ID", "77")
    assert telemetry.resource_attributes()["gpumemprof.job"] == "slurm 77"
