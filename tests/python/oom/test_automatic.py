"""``GPUMEMPROF=1``: recording without a change to code or command; nothing without the variable."""

from __future__ import annotations

import os
import site
import subprocess
import sys
import sysconfig
from pathlib import Path

import gpumemprof
import pytest

pytest.importorskip("torch")

PTH = Path(sysconfig.get_path("platlib")) / "gpumemprof.pth"
TRAIN = """
import torch
kept = torch.empty(20 << 20, dtype=torch.uint8)
print("done")
"""


def run(
    folder: Path, *words: str, program: str = TRAIN, **variables: str
) -> subprocess.CompletedProcess[str]:
    (folder / "train.py").write_text(program)
    environment = {
        key: text for key, text in os.environ.items() if not key.startswith("GPUMEMPROF")
    }
    return subprocess.run(
        [sys.executable, *(words or ["train.py"])],
        cwd=folder,
        env={**environment, "GPUMEMPROF_EXPLAIN_SECONDS": "120", **variables},
        capture_output=True,
        text=True,
        timeout=300,
    )


def recordings(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.gmp"))


def test_the_package_brings_the_file_that_python_reads_at_startup() -> None:
    assert PTH.exists()
    assert len(PTH.read_text().splitlines()) == 1


@pytest.mark.parametrize("value", [None, "", "0"])
def test_does_nothing_without_the_variable(tmp_path: Path, value: str | None) -> None:
    variables = {} if value is None else {"GPUMEMPROF": value}
    code = "import sys; print([name for name in sys.modules if 'gpumemprof' in name])"
    done = run(tmp_path, "-c", code, **variables)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[]\n", "")
    done = run(tmp_path, **variables)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
    assert recordings(tmp_path) == []


def test_costs_microseconds_without_the_variable() -> None:
    line = PTH.read_text()
    count = 2000
    environment = os.environ.pop("GPUMEMPROF", None)
    try:
        start = os.times()
        for _ in range(count):
            exec(line)
        end = os.times()
    finally:
        if environment is not None:
            os.environ["GPUMEMPROF"] = environment
    assert (end.user + end.system - start.user - start.system) / count < 1e-3


def test_records_a_program_that_uses_torch(tmp_path: Path) -> None:
    done = run(tmp_path, GPUMEMPROF="1")
    assert (done.returncode, done.stdout) == (0, "done\n")
    (name,) = recordings(tmp_path)
    assert name.startswith("train.")
    assert f"Next: gpumemprof report {name}" in done.stderr
    (device,) = gpumemprof.load(tmp_path / name).devices
    assert device.peak.allocated_bytes >= 20 << 20


def test_leaves_a_program_alone_that_never_imports_torch(tmp_path: Path) -> None:
    code = "import sys; print('gpumemprof' in sys.modules)"
    done = run(tmp_path, "-c", code, GPUMEMPROF="1")
    assert (done.returncode, done.stdout, done.stderr) == (0, "False\n", "")
    assert recordings(tmp_path) == []


def test_the_file_can_be_named_and_is_never_overwritten(tmp_path: Path) -> None:
    for _ in range(2):
        assert run(tmp_path, GPUMEMPROF="1", GPUMEMPROF_OUTPUT="mine.gmp").returncode == 0
    names = recordings(tmp_path)
    assert len(names) == 2
    assert "mine.gmp" in names
    assert all(name.startswith("mine.") for name in names)


def test_children_are_recorded_into_their_own_files_and_only_the_first_speaks(
    tmp_path: Path,
) -> None:
    program = TRAIN + (
        "import os, subprocess, sys\n"
        "if len(sys.argv) == 1: subprocess.run([sys.executable, 'train.py', 'child'])\n"
        "pid = os.fork() if len(sys.argv) == 1 else 1\n"
        "more = torch.empty(5 << 20, dtype=torch.uint8)\n"
        "if pid == 0: os._exit(0)\n"
        "if pid > 1: os.waitpid(pid, 0)\n"
    )
    done = run(tmp_path, program=program, GPUMEMPROF="1")
    assert done.returncode == 0
    assert len(recordings(tmp_path)) == 3
    assert done.stderr.count("Next:") == 1


def test_ranks_have_their_rank_in_the_name(tmp_path: Path) -> None:
    ranks = {"RANK": "3", "LOCAL_RANK": "3", "WORLD_SIZE": "8"}
    assert run(tmp_path, GPUMEMPROF="1", **ranks).returncode == 0
    (name,) = recordings(tmp_path)
    assert ".rank3." in name


def test_nothing_is_recorded_twice_under_run(tmp_path: Path) -> None:
    words = ["-m", "gpumemprof", "run", "--cpu", "-o", "out.gmp", "train.py"]
    done = run(tmp_path, *words, GPUMEMPROF="1")
    assert done.returncode == 0
    assert recordings(tmp_path) == ["out.gmp"]


def test_an_out_of_memory_error_is_explained(tmp_path: Path) -> None:
    program = (
        TRAIN + "raise torch.OutOfMemoryError('CUDA out of memory. Tried to allocate 2.00 GiB.')"
    )
    done = run(tmp_path, program=program, GPUMEMPROF="1")
    assert done.returncode == 1
    assert done.stderr.count("In use: ") == 1


def test_a_broken_installation_does_not_disturb_python(tmp_path: Path) -> None:
    """As if the package had been removed and the file left behind."""
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "gpumemprof.pth").write_text(PTH.read_text())
    code = f"import site; site.addsitedir({str(folder)!r}); print('fine')"
    done = run(tmp_path, "-S", "-c", code, GPUMEMPROF="1")
    assert (done.returncode, done.stdout, done.stderr) == (0, "fine\n", "")
    assert site is not None


def test_cpu_memory_that_runs_out_is_explained_by_the_request(tmp_path: Path) -> None:
    program = "import torch\nkept = torch.zeros(1 << 20)\ntorch.empty(1 << 50, dtype=torch.uint8)\n"
    done = run(tmp_path, "-m", "gpumemprof", "run", "--cpu", "train.py", program=program)
    words = " ".join(done.stderr.split())
    assert "cpu:0: out of memory: the system refused a request of 1.00 PiB" in words
    assert "tensors held 4.00 MiB" in words
    assert "the pool" not in words
    assert "outside PyTorch's allocator" not in words
