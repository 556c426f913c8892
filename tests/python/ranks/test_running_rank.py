"""Summaries of a rank that is still running: from another process, whatever becomes of either."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

TRAINING = """
import os, pathlib, sys, time, torch
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
end = time.monotonic() + 200
steps = 0
while time.monotonic() < end and not pathlib.Path(sys.argv[1]).exists():
    model(torch.ones(4, 64)).sum().backward()
    optimizer.step()
    steps += 1
    if steps == 20:
        pathlib.Path(sys.argv[2]).touch()
    time.sleep(0.002)
"""
LIMIT_SECONDS = 140  # Whoever makes summaries yields to all others.


def until(what: Callable[[], Any]) -> Any:
    """The first answer that is true."""
    end = time.monotonic() + LIMIT_SECONDS
    while time.monotonic() < end:
        if found := what():
            return found
        time.sleep(0.05)
    raise AssertionError("it took too long")


class Rank:
    """A program that is recorded as rank 1 of 4, with a summary several times a second."""

    def __init__(self, folder: Path, program: str, **environment: str) -> None:
        self.folder = folder
        self.trained_file = folder.parent / "trained"
        self.stop_file = folder.parent / "stop"
        script = folder.parent / "train.py"
        script.write_text(program)
        words = [sys.executable, "-m", "gpumemprof", "run", "--cpu", "-o", "job/job.gmp"]
        self.process = subprocess.Popen(
            [*words, str(script), str(self.stop_file), str(self.trained_file)],
            cwd=folder.parent,
            env={
                **os.environ,
                "RANK": "1",
                "WORLD_SIZE": "4",
                "LOCAL_RANK": "1",
                "OMP_NUM_THREADS": "1",
                "GPUMEMPROF_SUMMARY_SECONDS": "0.2",
                **environment,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def head(self) -> dict[str, Any] | None:
        path = next(self.folder.glob("job.*.gmp.summary.jsonl"), None)
        return None if path is None else json.loads(path.open().readline())

    def recorded_bytes(self) -> int:
        (path,) = self.folder.glob("job.*.gmp")
        return path.stat().st_size

    def stop(self) -> tuple[str, str]:
        self.stop_file.write_text("")
        return self.process.communicate(timeout=LIMIT_SECONDS)

    def beside(self) -> list[int]:
        """The processes that have its summaries made; each look is by a child of theirs."""
        found = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal():
                words = read_words(entry)
                if b"follow" in words and os.fsencode(self.folder) in words:
                    found[int(entry.name)] = parent_of(entry)
        return [number for number, parent in found.items() if parent not in found]


def read_words(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""


def parent_of(process: Path) -> int:
    try:
        return int((process / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "job"
    made.mkdir()
    return made


@pytest.fixture
def started() -> Iterator[list[Rank]]:
    ranks: list[Rank] = []
    yield ranks
    for rank in ranks:
        rank.process.kill()
        rank.process.communicate()


def test_a_summary_is_there_before_the_end_and_again_at_it(
    folder: Path, started: list[Rank]
) -> None:
    rank = Rank(folder, TRAINING)
    started.append(rank)
    first = until(rank.head)
    assert first["process"]["rank"] == 1
    assert first["ending"]["is_closed"] is False
    later = until(
        lambda: (
            (head := rank.head()) and head["recording_bytes"] > first["recording_bytes"] and head
        )
    )
    assert later["devices"][0]["steps"] >= first["devices"][0]["steps"]
    (beside,) = rank.beside()
    _, errors = rank.stop()
    assert rank.process.returncode == 0, errors
    last = rank.head()
    assert last is not None
    assert last["ending"] == {**last["ending"], "is_closed": True, "reason": "exit"}
    assert last["recording_bytes"] == rank.recorded_bytes()
    until(lambda: not Path(f"/proc/{beside}").exists())
    names = sorted(path.name for path in folder.iterdir())
    assert names == [names[0], f"{names[0]}.summary.jsonl"]


def test_a_rank_that_is_killed_leaves_a_summary_of_all_that_was_recorded(
    folder: Path, started: list[Rank]
) -> None:
    rank = Rank(folder, TRAINING)
    started.append(rank)
    until(rank.head)
    pid = until(rank.head)["process"]["pid"]
    os.kill(pid, signal.SIGKILL)
    rank.process.communicate(timeout=LIMIT_SECONDS)
    until(lambda: not rank.beside())
    head = rank.head()
    assert head is not None
    assert head["recording_bytes"] == rank.recorded_bytes()
    assert head["ending"]["is_closed"] is False


def test_the_program_cannot_wait_for_the_other_process_and_shares_no_file(
    folder: Path, started: list[Rank]
) -> None:
    program = (
        "import socket\nlistening = socket.create_server(('127.0.0.1', 0))\n"
        "listening.set_inheritable(True)\n"
        + TRAINING
        + "try:\n    print('child', os.wait())\nexcept ChildProcessError:\n    print('no child')\n"
    )
    rank = Rank(folder, program)
    started.append(rank)
    until(rank.head)
    (beside,) = until(rank.beside)
    kinds = [str(path.readlink()) for path in Path(f"/proc/{beside}/fd").iterdir()]
    assert not [kind for kind in kinds if kind.startswith("socket")]
    output, _ = rank.stop()
    assert output == "no child\n"


def test_a_rank_whose_folder_is_gone_goes_on(folder: Path, started: list[Rank]) -> None:
    rank = Rank(folder, TRAINING + "print('trained', steps >= 20)\n")
    started.append(rank)
    until(rank.head)
    shutil.rmtree(folder)
    until(lambda: not rank.beside())
    until(rank.trained_file.exists)
    output, errors = rank.stop()
    assert (rank.process.returncode, output) == (0, "trained True\n"), errors


def test_a_rank_whose_disk_is_full_goes_on(folder: Path, started: list[Rank]) -> None:
    # A limit on the size of files stands for a disk that fills up; the other process inherits it.
    limited = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
    rank = Rank(folder, limited + TRAINING + "print('trained', steps >= 20)\n")
    started.append(rank)
    until(rank.trained_file.exists)
    time.sleep(1)
    output, errors = rank.stop()
    assert (rank.process.returncode, output) == (0, "trained True\n"), errors
    assert not list(folder.glob(".*"))


def test_no_other_process_if_summaries_are_off(folder: Path, started: list[Rank]) -> None:
    rank = Rank(folder, TRAINING, GPUMEMPROF_SUMMARY="0")
    started.append(rank)
    until(lambda: list(folder.glob("job.*.gmp")))
    time.sleep(1)
    assert rank.beside() == []
    rank.stop()
    assert rank.head() is None


def test_a_thousand_steps_take_at_most_a_kilobyte_each(folder: Path) -> None:
    program = """
import torch
model = torch.nn.Sequential(*[torch.nn.Linear(32, 32) for _ in range(4)])
optimizer = torch.optim.AdamW(model.parameters())
kept = []
for step in range(1000):
    if step % 3 == 0:
        kept.append(torch.empty(step + 1))
    model(torch.ones(1 + step % 17, 32)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
    rank = Rank(folder, program, GPUMEMPROF_SUMMARY_SECONDS="60")
    _, errors = rank.process.communicate(timeout=LIMIT_SECONDS)
    assert rank.process.returncode == 0, errors
    head = rank.head()
    assert head is not None
    steps = head["devices"][0]["steps"]
    assert steps >= 1000
    assert len(head["devices"][0]["sources"]) >= 4
    (path,) = folder.glob("job.*.gmp.summary.jsonl")
    assert path.stat().st_size <= 1024 * steps
