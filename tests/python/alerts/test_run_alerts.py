"""``gpumemprof run --alert``."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

PROGRAM = """
import time, torch
kept = torch.empty(10 << 20, dtype=torch.uint8)
spike = torch.empty(300 << 20, dtype=torch.uint8)
del spike
time.sleep(0.1)
print("done")
"""


def run(folder: Path, *words: str, program: str = PROGRAM) -> subprocess.CompletedProcess[str]:
    (folder / "train.py").write_text(program)
    return subprocess.run(
        [sys.executable, "-m", "gpumemprof", "run", "--cpu", "-o", "out.gmp", *words, "train.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_an_alert_is_printed_and_the_program_is_unchanged(tmp_path: Path) -> None:
    done = run(tmp_path, "--alert", "allocated>200MiB", "--alert", "allocated>2TiB")
    assert done.returncode == 0
    assert done.stdout == "done\n"
    alerts = [line for line in done.stderr.splitlines() if "alert:" in line]
    assert len(alerts) == 1
    assert "(allocated>200MiB)" in alerts[0]


def test_a_condition_that_is_none_is_refused_before_the_program_starts(tmp_path: Path) -> None:
    done = run(tmp_path, "--alert", "speed>5")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "there is no metric 'speed'" in done.stderr
    assert not (tmp_path / "out.gmp").exists()


def test_an_alert_is_passed_to_a_command(tmp_path: Path) -> None:
    command = f'{sys.executable} -c \'import sys; open("alert", "w").write(sys.stdin.read())\''
    done = run(tmp_path, "--alert", "allocated>30MiB", "--alert-command", command)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "alert").read_text())["condition"] == "allocated>30MiB"


def test_what_ends_the_program_is_an_alert(tmp_path: Path) -> None:
    """An exception, and failures to allocate that the program survived."""
    end = """
for _ in range(3):
    try: raise torch.OutOfMemoryError("Tried to allocate 2.00 GiB. GPU 1 has a total capacity")
    except torch.OutOfMemoryError: pass
sys.excepthook(KeyError, KeyError("shown, and survived"), None)
raise ValueError("secret data")
"""
    command = f'{sys.executable} -c \'import sys; print(sys.stdin.read(), file=open("all", "a"))\''
    words = ["--alert", "out_of_memory", "--alert", "exception", "--alert-command", command]
    done = run(tmp_path, *words, program="import sys" + PROGRAM + end)
    assert done.returncode == 1
    memory, ended = map(json.loads, (tmp_path / "all").read_text().splitlines())
    assert (memory["condition"], memory["device"]) == ("out_of_memory", "cuda:1")
    assert memory["message"] == "out of memory on cuda:1: 2.00 GiB requested"
    assert (ended["metric"], ended["device"]) == ("exception", "")
    line = len(("import sys" + PROGRAM + end).splitlines())
    assert ended["message"] == f"the program ended by ValueError in train.py:{line} <module>"
    printed = [line for line in done.stderr.splitlines() if "alert: " in line]
    assert printed == [f"gpumemprof: alert: {one['message']}" for one in (memory, ended)]


def test_a_program_that_ends_well_raises_no_alert(tmp_path: Path) -> None:
    done = run(tmp_path, "--alert", "out_of_memory", "--alert", "exception")
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert "alert" not in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["--alert-webhook", "http://example"],
        ["--alert", "allocated>1GiB", "--alert-webhook", "ftp://example"],
        ["--alert", "allocated>1GiB", "--alert-command", "'"],
    ],
)
def test_where_alerts_go_is_checked_before_the_program_starts(
    tmp_path: Path, words: list[str]
) -> None:
    done = run(tmp_path, *words)
    assert done.returncode == 2
    assert "done" not in done.stdout
    assert len(done.stderr.splitlines()) <= 2


def test_a_condition_that_cannot_be_decided_is_said_once_and_the_program_runs(
    tmp_path: Path,
) -> None:
    done = run(tmp_path, "--alert", "headroom<5%")
    assert done.returncode == 0
    assert done.stdout == "done\n"
    assert done.stderr.count("cannot be decided on cpu") == 1
