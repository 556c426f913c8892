"""``gpumemprof live`` without a screen, and ``run --live`` in a pipe and on a terminal."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import Command, run_on_terminal
from live.growing import DATA, PROGRAM, TRAINING, GrowingFile

RECORDING_KEYS = {
    *("path", "state", "state_text", "events_per_second", "last_event_seconds", "notes"),
    *("file_bytes", "is_behind", "ended", "problem", "command", "host", "job", "gpumemprof"),
    *("torch", "pid", "rank", "world_size", "devices", "notices"),
}
DEVICE_KEYS = {
    *("device", "card", "has_pool", "events", "lost_events", "is_exact", "last_time_ns"),
    *("allocated_bytes", "active_bytes", "reserved_bytes", "peak_allocated_bytes"),
    *("peak_reserved_bytes", "recent_peak_allocated_bytes", "recent_peak_reserved_bytes"),
    *("out_of_memory", "retries", "unclear_retries", "segments_returned", "total_bytes"),
    *("used_bytes", "process_bytes", "other_processes_bytes", "outside_pool_bytes"),
    *("used_now_bytes", "recent_peak_used_bytes", "limit_bytes", "sources", "labelled_bytes"),
    *("steps", "sites"),
}


def once(command: Command, *words: object) -> dict[str, Any]:
    done = command("live", "--once", "--json", *words)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_json_has_the_documented_shape(command: Command) -> None:
    document = once(command, TRAINING)
    assert document["schema_version"] == 1
    assert set(document) == {
        *("schema_version", "time_ns", "recordings", "recordings_left_out", "waiting_for")
    }
    recording = document["recordings"][0]
    assert set(recording) == RECORDING_KEYS
    assert set(recording["devices"][0]) == DEVICE_KEYS
    assert recording["state"] == "ended"


@pytest.mark.parametrize("name", ["oom_shortage", "oom_limit", "oom_other_processes"])
def test_json_of_a_run_that_failed_agrees_with_its_report(command: Command, name: str) -> None:
    path = DATA / "oom" / f"{name}.gmp"
    device = once(command, path)["recordings"][0]["devices"][0]
    report = json.loads(command("report", "--json", path).stdout)["devices"][0]
    assert device["peak_allocated_bytes"] == report["peak"]["allocated_bytes"]
    assert device["out_of_memory"] > 0
    kinds = [notice["kind"] for notice in once(command, path)["recordings"][0]["notices"]]
    assert kinds[0] == "out_of_memory"


def test_card_is_filled_by_what_was_measured_and_what_the_pool_took_since(command: Command) -> None:
    device = once(command, DATA / "oom" / "oom_shortage.gmp")["recordings"][0]["devices"][0]
    assert 0 < device["used_now_bytes"] <= device["total_bytes"]
    assert device["recent_peak_used_bytes"] >= device["used_now_bytes"]


def test_json_lines_end_with_the_recording(command: Command, tmp_path: Path) -> None:
    growing = GrowingFile(tmp_path / "run.gmp")
    growing.grow(growing.size // 2)
    words = [sys.executable, "-m", "gpumemprof", "live", "--json", "--interval", "0.1"]
    process = subprocess.Popen([*words, str(growing.path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    first = json.loads(process.stdout.readline())
    assert not first["recordings"][0]["ended"]
    growing.grow()
    last = [json.loads(line) for line in process.stdout][-1]
    assert last["recordings"][0]["state"] == "ended"
    assert process.wait() == 0


def test_a_process_that_is_not_recorded_is_told_how_to_start_one(command: Command) -> None:
    done = command("live", "--once", os.getpid())
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "is not recorded; start it with: gpumemprof run SCRIPT" in done.stderr


def test_run_live_in_a_pipe_leaves_the_output_and_the_code_alone(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    words = [sys.executable, "-m", "gpumemprof", "run", "--live", "--cpu", "train.py", "3", "end"]
    done = subprocess.run(
        [*words, "7"], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 7
    assert done.stdout == "the program prints\n"
    # However short the program was, its last figures are there.
    assert re.search(r"train.py \d+ cpu:0: allocated .*, peak since the last line ", done.stderr)
    assert re.search(r"train.py \d+: ended", done.stderr)
    assert len(list(tmp_path.glob("train.*.gmp"))) == 1


def test_run_live_ends_by_the_signal_that_killed_the_program(tmp_path: Path) -> None:
    (tmp_path / "die.py").write_text("import os; os.kill(os.getpid(), 9)")
    words = [sys.executable, "-m", "gpumemprof", "run", "--live", "die.py"]
    done = subprocess.run(
        words, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == -signal.SIGKILL
    assert done.stderr.endswith("gpumemprof: the program was killed by SIGKILL\n")


def test_run_live_on_a_terminal_shows_the_screen_and_then_all_output(tmp_path: Path) -> None:
    pytest.importorskip("textual")
    (tmp_path / "train.py").write_text(PROGRAM)
    printed, code = run_on_terminal(
        tmp_path, "-m", "gpumemprof", "run", "--live", "--cpu", "train.py", "100", "end", "5"
    )
    assert code == 5
    assert "output of the program" in printed
    after = printed.rpartition("\x1b[?1049l")[2]  # the screen is gone
    assert "the program prints\r\n" in after
    assert "Next: gpumemprof report" in after


def test_run_live_does_not_wait_for_what_the_program_left_running(tmp_path: Path) -> None:
    pytest.importorskip("textual")
    program = """
import subprocess
left = subprocess.Popen(["sleep", "250"], start_new_session=True)
print("it is", left.pid)
"""
    (tmp_path / "train.py").write_text(program)
    printed, code = run_on_terminal(tmp_path, "-m", "gpumemprof", "run", "--live", "train.py")
    assert code == 0
    sleeper = re.findall(r"it is (\d+)\r\n", printed)[-1]
    os.kill(int(sleeper), signal.SIGKILL)


def test_without_textual_lines_are_printed_and_one_sentence_says_why(tmp_path: Path) -> None:
    (tmp_path / "run.gmp").write_bytes(TRAINING.read_bytes())
    program = (
        "import importlib.util, sys; found = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda n, *a: None if n == 'textual' else found(n, *a)\n"
        "from gpumemprof.__main__ import main\n"
    )
    program += "sys.exit(main(['live', 'run.gmp']))"
    text, code = run_on_terminal(tmp_path, "-c", program)
    assert code == 0
    assert text.count("pip install textual") == 1
    assert "allocated" in text


def test_once_of_a_damaged_recording_ends_as_its_report_does(
    tmp_path: Path, command: Command
) -> None:
    content = bytearray(TRAINING.read_bytes())
    content[len(content) * 3 // 4] ^= 1
    damaged = tmp_path / "damaged.gmp"
    damaged.write_bytes(content)
    report = command("report", damaged)
    watched = command("live", damaged, "--once")
    assert watched.returncode == report.returncode == 3
    assert watched.stderr.split(";")[0] == report.stderr.split(";")[0]
    assert "allocated" in watched.stdout
    assert command("live", damaged, "--json").returncode == 3
