"""With GPUMEMPROF=1, no two processes write to one file, whenever and wherever they start."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import gpumemprof
import pytest
from automatic_runs import recordings, run_automatic, write

pytest.importorskip("torch")

HOST = re.escape(socket.gethostname())
ALLOCATE = "import torch\nkept = torch.empty(1000, dtype=torch.uint8)\n"
# Each process is the first of a program of its own; all pass the barrier at once.
AT_ONCE = """
import os, sys, torch
from gpumemprof.recorder import automatic, registry
waits, barrier = os.pipe()
children = []
for number in range(int(sys.argv[1])):
    pid = os.fork()
    if pid == 0:
        os.close(barrier)
        os.read(waits, 1)
        automatic.begin(registry.make())
        kept = torch.empty(1000 + number, dtype=torch.uint8)
        os._exit(0)
    children.append(pid)
os.close(barrier)
for pid in children:
    assert os.waitpid(pid, 0)[1] == 0
"""


@pytest.mark.parametrize("options", ["", "--keep 64MiB"])
def test_processes_that_start_at_once_have_a_recording_each(tmp_path: Path, options: str) -> None:
    count = 24
    write(tmp_path, AT_ONCE)
    done = run_automatic(
        tmp_path,
        "train.py",
        str(count),
        GPUMEMPROF="0",
        GPUMEMPROF_OUTPUT="all/run.gmp",
        GPUMEMPROF_OPTIONS=options,
    )
    assert done.returncode == 0, done.stderr
    paths = list((tmp_path / "all").iterdir())
    assert tmp_path / "all" / "run.gmp" in paths
    recorded = [gpumemprof.load(path) for path in paths]
    peaks = sorted(recording.devices[0].peak.allocated_bytes or 0 for recording in recorded)
    assert peaks == list(range(1000, 1000 + count))
    assert len(re.findall(r"(?m)^gpumemprof: 1 allocation", done.stderr)) == count, done.stderr
    assert len(re.findall(r"(?m)^Next: gpumemprof report all/run", done.stderr)) == count


def test_name_of_a_recording_has_script_host_and_process(tmp_path: Path) -> None:
    assert run_automatic(tmp_path, program=ALLOCATE).returncode == 0
    (name,) = recordings(tmp_path)
    assert re.fullmatch(rf"train\.{HOST}\.\d+\.gmp", name)


def test_name_that_is_taken_is_followed_by_host_and_process(tmp_path: Path) -> None:
    for _ in range(2):
        done = run_automatic(tmp_path, program=ALLOCATE, GPUMEMPROF_OUTPUT="run.gmp")
        assert done.returncode == 0
    first, second = sorted(recordings(tmp_path), key=len)
    assert first == "run.gmp"
    assert re.fullmatch(rf"run\.{HOST}\.\d+\.gmp", second)
    assert f"Next: gpumemprof report {second}" in done.stderr


def test_name_of_ranks_has_host_and_rank(tmp_path: Path) -> None:
    rank = {"RANK": "3", "LOCAL_RANK": "3", "WORLD_SIZE": "8"}
    done = run_automatic(tmp_path, program=ALLOCATE, **rank)
    assert done.returncode == 0
    (name,) = recordings(tmp_path)
    assert re.fullmatch(rf"train\.{HOST}\.rank3\.\d+\.gmp", name)


def test_folders_of_the_output_are_made(tmp_path: Path) -> None:
    done = run_automatic(tmp_path, program=ALLOCATE, GPUMEMPROF_OUTPUT="a/b/run.gmp")
    assert done.returncode == 0
    assert (tmp_path / "a/b/run.gmp").exists()
    assert "a/b/run.gmp" in done.stderr


def test_process_without_a_script_is_named_after_the_first_process(tmp_path: Path) -> None:
    """As the workers of pytest-xdist are."""
    write(
        tmp_path,
        f"""
        import subprocess, sys
        subprocess.run([sys.executable, "-c", {ALLOCATE!r}], check=True)
        """,
        "controller.py",
    )
    assert run_automatic(tmp_path, "controller.py").returncode == 0
    assert run_automatic(tmp_path, "-m", "controller").returncode == 0
    names = recordings(tmp_path)
    assert len(names) == 2
    assert all(name.startswith("controller.") for name in names)


def test_path_of_a_recording_is_the_name_that_was_free(tmp_path: Path) -> None:
    """So that a failure is not explained from the file of another process."""
    program = """
    import torch
    from gpumemprof.recorder import open_recordings
    open("run.gmp", "x").write("another process was faster")
    kept = torch.empty(1000)
    print(open_recordings.active[0].path)
    """
    done = run_automatic(tmp_path, program=program, GPUMEMPROF_OUTPUT="run.gmp")
    assert done.returncode == 0, done.stderr
    assert re.search(rf"run\.{HOST}\.\d+\.gmp\n", done.stdout)


def test_worker_of_ray_is_called_after_its_task(tmp_path: Path) -> None:
    """Ray writes the task over the words that the process was started with."""
    done = run_automatic(
        tmp_path,
        program="""
        import ctypes
        start, end = map(int, open("/proc/self/stat").read().rpartition(")")[2].split()[45:47])
        ctypes.memmove(start, b"ray::Trainer.fit".ljust(end - start, b"\\0"), end - start)
        import torch
        kept = torch.empty(1000)
        """,
        GPUMEMPROF_OUTPUT="run.gmp",
    )
    assert done.returncode == 0, done.stderr
    facts = gpumemprof.load(tmp_path / "run.gmp").report()["input"]["facts"]
    assert facts["command"] == "ray::Trainer.fit"
