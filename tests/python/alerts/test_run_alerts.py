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


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    (folder / "train.py").write_text(PROGRAM)
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
