"""A watched recording, whatever happens to its file and its program."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from types import SimpleNamespace

import pytest
from gpumemprof.live.targets import find_target
from gpumemprof.live.watched import WatchedRecording
from gpumemprof.live.watcher import Watcher
from live.growing import TRAINING, GrowingFile, start_program, wait_until

LONG = 60.0


@pytest.fixture
def growing(tmp_path: Path) -> GrowingFile:
    return GrowingFile(tmp_path / "run.gmp")


def test_is_starting_until_its_first_bytes_are_there(growing: GrowingFile) -> None:
    watched = WatchedRecording(growing.path)
    watched.look(LONG)
    assert watched.state.name == "starting"
    growing.grow(7)
    watched.look(LONG)
    assert watched.state.name == "starting"
    growing.grow()
    watched.look(LONG)
    assert watched.state.name == "ended"


def test_shows_the_exact_peak_between_any_two_looks(growing: GrowingFile) -> None:
    whole = WatchedRecording(TRAINING)
    whole.look(LONG)
    watched = WatchedRecording(growing.path)
    peaks = []
    while watched.state.name != "ended":
        growing.grow(1500)
        watched.look(LONG)
        peaks += [one["recent_peak_allocated_bytes"] for one in watched.report.get("devices", [])]
    assert max(peaks) == whole.report["devices"][0]["peak_allocated_bytes"]
    assert min(peaks) < max(peaks)


def test_is_idle_while_neither_an_event_nor_a_step_comes(
    growing: GrowingFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    growing.grow(growing.size // 2)
    watched = WatchedRecording(growing.path)
    assert watched.idle_seconds is None
    first = WatchedRecording(growing.path)
    first.look(LONG)
    end = max(device["last_time_ns"] for device in first.report["devices"]) / 1e9
    clock = SimpleNamespace(time=lambda: end + passed[0], monotonic=lambda: passed[0])
    monkeypatch.setattr("gpumemprof.live.watched.time", clock)
    passed = [300.0]
    os.utime(growing.path, (end, end + 270))  # the last event was 270 s before
    watched.look(LONG)
    assert watched.idle_seconds == pytest.approx(30, abs=0.01)
    passed = [400.0]
    watched.look(LONG)
    assert watched.idle_seconds == pytest.approx(130, abs=0.01)
    growing.grow()
    watched.look(LONG)  # steps, even if their events were long ago
    assert watched.idle_seconds == 0


def test_that_becomes_shorter_is_followed_from_its_new_start(growing: GrowingFile) -> None:
    growing.grow(growing.size // 2)
    watched = WatchedRecording(growing.path)
    watched.look(LONG)
    assert watched.report["devices"]
    GrowingFile(growing.path).grow(1000)
    watched.look(LONG)
    assert "replaced" in watched.notes[0]
    watched.look(LONG)
    assert watched.report["file_bytes"] <= 1000


def test_that_is_replaced_is_followed_under_the_same_name(growing: GrowingFile) -> None:
    growing.grow(growing.size // 2)
    watched = WatchedRecording(growing.path)
    watched.look(LONG)
    other = GrowingFile(growing.path.with_suffix(".new"))
    other.grow()
    other.path.replace(growing.path)
    watched.look(LONG)
    watched.look(LONG)
    assert watched.state.name == "ended"
    assert "replaced" in watched.notes[0]


def test_that_is_removed_keeps_its_last_figures(growing: GrowingFile) -> None:
    growing.grow(growing.size // 2)
    watched = WatchedRecording(growing.path)
    watched.look(LONG)
    events = watched.report["devices"][0]["events"]
    growing.path.unlink()
    watched.look(LONG)
    assert watched.state.name == "removed"
    assert watched.report["devices"][0]["events"] >= events


def test_that_is_damaged_says_where_and_shows_what_came_before(tmp_path: Path) -> None:
    bytes_of = bytearray(TRAINING.read_bytes())
    bytes_of[len(bytes_of) * 3 // 4] ^= 1
    path = tmp_path / "damaged.gmp"
    path.write_bytes(bytes_of)
    watched = WatchedRecording(path)
    watched.look(LONG)
    assert watched.state.name == "damaged"
    assert "byte " in watched.state.text
    assert watched.report["devices"][0]["events"] > 0


def test_that_is_no_recording_says_so(tmp_path: Path) -> None:
    path = tmp_path / "notes.gmp"
    path.write_text("this is not a recording at all")
    watched = WatchedRecording(path)
    watched.look(LONG)
    assert watched.state.name == "unreadable"
    assert "notes.gmp" in watched.state.text


def recorded(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.gmp"))


def watched_until(folder: Path, *states: str) -> WatchedRecording:
    wait_until(lambda: bool(recorded(folder)))
    watched = WatchedRecording(recorded(folder)[0])

    def is_there() -> bool:
        watched.look(LONG)
        return watched.state.name in states

    wait_until(is_there)
    return watched


def test_program_that_ends(tmp_path: Path) -> None:
    program = start_program(tmp_path, 5, "end")
    watched = watched_until(tmp_path, "ended")
    program.communicate()
    assert watched.state.text == "ended"
    assert watched.report["devices"][0]["steps"][-1]["step"] == 5


def test_program_that_crashes_says_by_what(tmp_path: Path) -> None:
    program = start_program(tmp_path, 5, "crash")
    watched = watched_until(tmp_path, "ended", "crashed")
    program.communicate()
    assert watched.state.name == "crashed"
    assert "ValueError" in watched.state.text


def test_program_that_a_signal_ended_says_by_which(tmp_path: Path) -> None:
    program = start_program(tmp_path, 5, "wait")
    wait_until(lambda: bool(recorded(tmp_path)))
    watched = watched_until(tmp_path, "recording")
    wait_until(lambda: watched.look(LONG) or bool(watched.report["devices"]))
    os.kill(program.pid, signal.SIGTERM)
    assert program.wait() == -signal.SIGTERM
    watched.look(LONG)
    assert (watched.state.name, watched.state.text) == ("crashed", "killed by SIGTERM")


def test_program_that_is_killed_is_lost_but_one_that_waits_is_not(tmp_path: Path) -> None:
    program = start_program(tmp_path, 5, "wait")
    wait_until(lambda: bool(recorded(tmp_path)))
    watched = WatchedRecording(recorded(tmp_path)[0])

    def is_quiet() -> bool:
        watched.look(LONG)
        assert not watched.state.is_over
        steps = [step for device in watched.report.get("devices", []) for step in device["steps"]]
        return bool(steps) and steps[-1]["step"] == 5 and "last event" in watched.state.text

    wait_until(is_quiet)
    os.kill(program.pid, signal.SIGKILL)
    program.communicate()

    def is_lost() -> bool:
        watched.look(LONG)
        return watched.state.name == "lost"

    wait_until(is_lost)
    assert "killed or lost, last event" in watched.state.text
    assert watched.report["devices"][0]["steps"][-1]["step"] == 5


def test_folder_shows_programs_that_start_later_and_a_pid_its_own(tmp_path: Path) -> None:
    watcher = Watcher([find_target(str(tmp_path))])
    watcher.look()
    assert "no recording" in watcher.why_none()[0]
    programs = [start_program(tmp_path, 3, "wait", name=f"{name}.py") for name in "ab"]

    def has_both() -> bool:
        watcher.look()
        return sum(1 for one in watcher.recordings if one.report.get("devices")) == 2

    wait_until(has_both)
    own = Watcher([find_target(str(programs[0].pid))])
    own.look()
    assert [one.report["pid"] for one in own.recordings] == [programs[0].pid]
    for program in programs:
        program.kill()
        program.communicate()


def test_folder_leaves_out_recordings_that_are_over(tmp_path: Path) -> None:
    old = tmp_path / "old.gmp"
    old.write_bytes(TRAINING.read_bytes())
    os.utime(old, (1e9, 1e9))
    watcher = Watcher([find_target(str(tmp_path))])
    watcher.look()
    assert watcher.recordings == []
    assert "1 recording is over" in watcher.why_none()[0]
