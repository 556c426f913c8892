"""Recordings with a limit on their size: ``keep=`` and ``run --keep``."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import gpumemprof
import pytest
from capture_programs import run_command, run_program, run_recorded

TINY = {"GPUMEMPROF_CHAPTER_EVENTS": "400", "GPUMEMPROF_LEAST_KEEP": "1"}
EVERYTHING = "1GiB"
HEADER_BYTES = 16
TRAINING = """
import torch, gpumemprof
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8))
optimizer = torch.optim.AdamW(model.parameters())
kept = []
def train(steps):
    for step in range(steps):
        gpumemprof.step()
        with gpumemprof.tag("forward"):
            loss = model(torch.randn(32 + step % 5, 64)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 10 == 0:
            kept.append(torch.empty(1000 + step))
"""


def load(path: Path) -> gpumemprof.Recording:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gpumemprof.CutFileWarning)
        return gpumemprof.load(path)


def chapters(folder: Path) -> list[Path]:
    return sorted(folder.glob("chapter-*.gmp"))


def both_ways(folder: Path, steps: int = 60) -> tuple[Path, Path]:
    """One run, recorded at once to a file and to a folder."""
    program = f"""
{TRAINING}
with gpumemprof.record("one.gmp", cpu=True):
    with gpumemprof.record("many.gmp", cpu=True, keep="{EVERYTHING}"):
        train({steps})
"""
    done = run_program(folder, program, environment=TINY)
    assert done.returncode == 0, done.stderr
    return folder / "one.gmp", folder / "many.gmp"


def comparable(report: dict[str, Any]) -> dict[str, Any]:
    """Without what a second recording cannot share: names, what only a folder has, and the host's
    memory, which is read at times of its own."""
    report = json.loads(json.dumps(report))
    report["input"].pop("path", None)
    facts = report["input"]["facts"]
    report["input"]["facts"] = {name: facts[name] for name in facts if not name.startswith("host_")}
    report["completeness"].pop("summarised", None)
    return report


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return both_ways(tmp_path_factory.mktemp("pair"))


def test_a_folder_says_what_the_file_says(pair: tuple[Path, Path]) -> None:
    one, many = map(load, pair)
    assert len(chapters(pair[1])) > 8
    assert comparable(one.report()) == comparable(many.report())
    assert one.labels() == many.labels()
    assert many.report()["completeness"]["is_whole"]


def test_every_verb_opens_a_folder(pair: tuple[Path, Path], tmp_path: Path) -> None:
    for words in (
        ["report", str(pair[1])],
        ["report", str(pair[1]), "--html", str(tmp_path / "page.html")],
        ["info", str(pair[1])],
        ["advise", str(pair[1])],
        ["convert", str(pair[1]), str(tmp_path / "whole.gmp"), "--to", "gmp"],
    ):
        done = run_command(tmp_path, ["-m", "gpumemprof", *words], None)
        assert done.returncode == 0, done.stderr
        assert done.stderr == "" or "advise" in words
    whole = load(tmp_path / "whole.gmp").report()
    assert whole["devices"] == load(pair[0]).report()["devices"]


def test_what_is_removed_is_summarised(pair: tuple[Path, Path], tmp_path: Path) -> None:
    folder = tmp_path / "many.gmp"
    shutil.copytree(pair[1], folder)
    for chapter in chapters(folder)[3:7]:
        chapter.unlink()
    recording = load(folder)
    report = recording.report()
    found = report["completeness"]
    assert found["is_whole"] is False
    assert found["lost"] == {"allocations": 0, "frees": 0, "others": 0}
    total = {
        kind: found["recorded"][kind] + found["summarised"][kind] for kind in found["recorded"]
    }
    assert total == found["made"]
    assert found["exact_until_us"] is None
    assert [gap["is_summarised"] for gap in found["gaps"]] == [True]
    before = load(pair[0]).report()
    end = [device["end"] for device in before["devices"]]
    assert [device["end"] for device in report["devices"]] == end
    done = run_command(tmp_path, ["-m", "gpumemprof", "report", str(folder)], None)
    assert "in full detail" in done.stdout and "only summarised" in done.stdout
    info = run_command(tmp_path, ["-m", "gpumemprof", "info", "--json", str(folder)], None)
    listed = json.loads(info.stdout)["chapters"]
    assert [chapter["is_kept"] for chapter in listed].count(False) == 4
    assert all(chapter["devices"] for chapter in listed)


def disk_bytes(path: Path) -> int:
    """As du counts it: the blocks of the disk; 0 if it is gone by now."""
    with contextlib.suppress(FileNotFoundError):
        return path.stat().st_blocks * 512
    return 0


def test_the_folder_stays_within_its_size(tmp_path: Path) -> None:
    keep = 600_000
    (tmp_path / "train.py").write_text(TRAINING + "train(1500)\n")
    command = [sys.executable, "-m", "gpumemprof", "run", "--cpu", "-o", "run.gmp"]
    command += ["--keep", str(keep), "train.py"]
    environment = {**os.environ, **TINY, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE)
    most, largest = 0, 0
    folder = tmp_path / "run.gmp"
    while process.poll() is None:
        if folder.is_dir():
            largest = max(largest, *map(disk_bytes, [tmp_path, *chapters(folder)]))
            most = max(most, sum(map(disk_bytes, folder.iterdir())))
        time.sleep(0.005)
    assert process.returncode == 0
    assert most <= keep + largest, (most, largest)
    recording = load(folder)
    info = recording.report()["completeness"]
    assert info["summarised"] is not None
    assert info["summarised"]["allocations"] > 0
    listed = chapters(folder)
    assert listed[0].name == "chapter-000001.gmp"


def test_killed_at_any_moment(tmp_path: Path) -> None:
    """A few here; the full number is a matter of the environment."""
    times = int(os.environ.get("GPUMEMPROF_KILLS", "6"))
    choices = random.Random(1)
    (tmp_path / "train.py").write_text(
        TRAINING
        + """
import os, time
while True:
    train(1)
    with open("progress", "w") as file:
        file.write(f"{len(kept)} {time.monotonic()}")
"""
    )
    environment = {**os.environ, **TINY, "OMP_NUM_THREADS": "1"}
    for turn in range(times):
        folder = tmp_path / f"run{turn}.gmp"
        command = [sys.executable, "-m", "gpumemprof", "run", "--cpu", "-o", folder.name]
        command += ["--keep", "400kB", "train.py"]
        process = subprocess.Popen(command, cwd=tmp_path, env=environment)
        while not (folder.is_dir() and chapters(folder)):
            time.sleep(0.01)
            assert process.poll() is None
        time.sleep(choices.uniform(0, 3))
        process.send_signal(signal.SIGKILL)
        process.wait()
        found = load(folder).report()["completeness"]
        assert found["is_closed"] is False
        assert all(gap["is_summarised"] for gap in found["gaps"])
        last = chapters(folder)[-1]
        whole = last.read_bytes()
        for _ in range(3):
            # Of a file that ends inside its header, nothing can be told.
            least = 0 if len(chapters(folder)) > 1 else HEADER_BYTES
            last.write_bytes(whole[: choices.randrange(least, len(whole) + 1)])
            load(folder).report()


def test_sizes_that_are_refused(tmp_path: Path) -> None:
    for size, words in (("1MiB", "too small"), ("lots", "takes a size such as 2GiB")):
        (tmp_path / "train.py").write_text("")
        done = run_recorded(tmp_path, "--keep", size, "train.py")
        assert done.returncode == 2
        assert words in done.stderr and done.stderr.count("\n") == 1
        with pytest.raises(gpumemprof.UsageError, match=words):
            gpumemprof.start(tmp_path / "run.gmp", cpu=True, keep=size)
    assert not (tmp_path / "run.gmp").exists()


def test_a_folder_that_is_there_already(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAINING + "train(20)\n")
    words = ["--cpu", "-o", "run.gmp", "--keep", EVERYTHING, "train.py"]
    assert run_recorded(tmp_path, *words, environment=TINY).returncode == 0
    folder = tmp_path / "run.gmp"
    first = [chapter.read_bytes() for chapter in chapters(folder)]
    (folder / "notes.txt").write_text("mine")
    refused = run_recorded(tmp_path, *words, environment=TINY)
    assert refused.returncode == 2
    assert "exists" in refused.stderr
    assert [chapter.read_bytes() for chapter in chapters(folder)] == first
    (tmp_path / "train.py").write_text(TRAINING + "train(2)\n")
    assert run_recorded(tmp_path, "-f", *words, environment=TINY).returncode == 0
    assert len(chapters(folder)) < len(first)
    assert (folder / "notes.txt").read_text() == "mine"
    assert load(folder).report()["completeness"]["is_whole"]
    plain = run_recorded(tmp_path, "--cpu", "-o", "run.gmp", "train.py")
    assert plain.returncode == 2 and "is a folder" in plain.stderr


def test_a_folder_that_is_being_written_is_not_replaced(tmp_path: Path) -> None:
    program = """
import gpumemprof, torch
first = gpumemprof.start("run.gmp", cpu=True, keep="64MiB")
torch.empty(1000)
try:
    gpumemprof.start("run.gmp", cpu=True, keep="64MiB", overwrite=True)
except gpumemprof.Error as error:
    print(error)
first.stop()
"""
    done = run_program(tmp_path, program)
    assert done.returncode == 0, done.stderr
    assert "is being written by another recording" in done.stdout
    assert load(tmp_path / "run.gmp").report()["completeness"]["is_whole"]


def test_a_folder_that_is_deleted_meanwhile(tmp_path: Path) -> None:
    program = f"""
{TRAINING}
import os, shutil, warnings
warnings.simplefilter("ignore")
recording = gpumemprof.start("run.gmp", cpu=True, keep="{EVERYTHING}")
train(10)
os.rename("run.gmp", "gone")  # a chapter may appear while its files are deleted one by one
shutil.rmtree("gone")
train(30)
recording.stop()
print(recording.summary["problem"])
"""
    done = run_program(tmp_path, program, environment=TINY)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_children_write_their_own_folders(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        TRAINING
        + """
import os
child = os.fork()
train(20)
if child == 0:
    os._exit(0)
os.waitpid(child, 0)
"""
    )
    done = run_recorded(
        tmp_path, "--cpu", "-o", "run.gmp", "--keep", EVERYTHING, "train.py", environment=TINY
    )
    assert done.returncode == 0, done.stderr
    folders = sorted(tmp_path.glob("run*.gmp"))
    assert len(folders) == 2
    for folder in folders:
        assert len(chapters(folder)) > 2
        found = load(folder).report()["completeness"]
        assert found["is_whole"], found


@pytest.mark.parametrize("how", ["exit", "os._exit(3)", "1 / 0", "sys.exit(4)"])
def test_however_the_program_ends(tmp_path: Path, how: str) -> None:
    (tmp_path / "train.py").write_text(f"{TRAINING}\nimport os, sys\ntrain(20)\n{how}\n")
    run_recorded(
        tmp_path, "--cpu", "-o", "run.gmp", "--keep", EVERYTHING, "train.py", environment=TINY
    )
    found = load(tmp_path / "run.gmp").report()["completeness"]
    assert found["is_whole"], found


def test_a_program_without_tensors_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import torch\n")
    done = run_recorded(tmp_path, "--cpu", "-o", "run.gmp", "--keep", "64MiB", "train.py")
    assert done.returncode == 0
    assert not (tmp_path / "run.gmp").exists()


def reported(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = ["-m", "gpumemprof", "report", "--json", str(folder)]
    return run_command(folder.parent, command, environment)


@pytest.mark.parametrize("removed", [1, 4])
def test_windows_begin_with_what_was_live(
    pair: tuple[Path, Path], tmp_path: Path, removed: int
) -> None:
    folder = tmp_path / "run.gmp"
    shutil.copytree(pair[1], folder)
    chapters(folder)[removed - 1].unlink()
    whole = json.loads(reported(folder).stdout)
    in_windows = json.loads(reported(folder, GPUMEMPROF_WINDOW_EVENTS="500").stdout)
    assert in_windows["devices"] == whole["devices"]
    assert in_windows["input"] == whole["input"]


def test_a_chapter_of_another_recording_is_left_out(
    pair: tuple[Path, Path], tmp_path: Path
) -> None:
    folder = tmp_path / "run.gmp"
    shutil.copytree(pair[1], folder)
    events = json.loads(reported(folder).stdout)["input"]["events"]
    other = Path(__file__).parents[2] / "data/traces/cpu_training.gmp"
    shutil.copy(other, folder / f"chapter-{len(chapters(folder)) + 1:06}.gmp")
    done = reported(folder)
    assert done.returncode == 3
    assert "it belongs to another recording, of process" in done.stderr
    assert done.stderr.count("\n") == 1
    assert json.loads(done.stdout)["input"]["events"] == events
