"""gpumemprof run: what is passed through, how programs end, what goes wrong."""

from __future__ import annotations

import signal
import socket
import time
import warnings
from pathlib import Path

import gpumemprof
import pytest
from capture_programs import run_command, run_program, run_recorded

TRAIN = """
import sys, torch
kept = torch.empty(int(sys.argv[1]), dtype=torch.uint8)
print("out", sys.argv, __name__)
print("err", file=sys.stderr)
sys.exit(int(sys.argv[2]))
"""
ENDINGS = """
import ctypes, os, signal, sys, time, torch
import gpumemprof
gpumemprof.start("run.gmp", cpu=True)
end = time.time() + 1.5
while time.time() < end:
    x = torch.empty(10_000)
    time.sleep(0.001)
print(time.time(), flush=True)
way = sys.argv[1]
if way == "kill": os.kill(os.getpid(), signal.SIGKILL)
if way == "term": os.kill(os.getpid(), signal.SIGTERM)
if way == "exit": sys.exit(3)
if way == "_exit": os._exit(3)
if way == "exception": raise ValueError("on purpose")
if way == "crash": ctypes.string_at(0)
"""


def write(folder: Path, program: str, name: str = "train.py") -> None:
    (folder / name).write_text(program)


def test_passes_arguments_streams_and_exit_code(tmp_path: Path) -> None:
    write(tmp_path, TRAIN)
    done = run_recorded(tmp_path, "-o", "run.gmp", "train.py", "1000", "5", "-o", "mine")
    assert done.returncode == 5
    assert done.stdout == "out ['train.py', '1000', '5', '-o', 'mine'] __main__\n"
    lines = done.stderr.splitlines()
    assert lines[0] == "err"
    assert lines[1].startswith("gpumemprof: 1 allocation, 0 frees in run.gmp")
    assert "peak 1000 B on cpu:0" in lines[1]
    assert lines[2] == "Next: gpumemprof report run.gmp"
    assert gpumemprof.load(tmp_path / "run.gmp").devices[0].peak.allocated_bytes == 1000


@pytest.mark.parametrize("how", [["train.py"], ["-m", "train"]])
def test_stacks_begin_with_the_program(tmp_path: Path, how: list[str]) -> None:
    write(tmp_path, TRAIN)
    run_recorded(tmp_path, "-o", "run.gmp", *how, "1000", "0")
    recording = gpumemprof.load(tmp_path / "run.gmp")
    (group,) = recording.devices[0].live_at_peak
    (frame,) = group.stack
    assert (Path(frame.file).name, frame.line, frame.name) == ("train.py", 3, "<module>")


def test_names_the_file_after_script_and_process(tmp_path: Path) -> None:
    write(tmp_path, TRAIN)
    run_recorded(tmp_path, "train.py", "10", "0")
    (path,) = tmp_path.glob("train.*.gmp")
    assert path.name.split(".")[1].isdecimal()


def test_records_every_rank_of_torchrun(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import torch\nkept = torch.ones(5000)\n")
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "-m"]
    done = run_command(tmp_path, [*launcher, "gpumemprof", "run", "--cpu", "train.py"], None)
    assert done.returncode == 0, done.stderr
    ranks = set()
    for path in tmp_path.glob("train.*.gmp"):
        recording = gpumemprof.load(path)
        ranks.add(recording.report()["input"]["facts"]["rank"])
        (device,) = recording.devices
        assert device.peak.allocated_bytes == 20_000
    assert ranks == {"0", "1"}
    # One speaks for all.
    ours = [line for line in done.stderr.splitlines() if line.startswith(("gpumemprof", "Next"))]
    assert len(ours) == 2, done.stderr
    assert ".rank0." in done.stderr
    assert ours[1] == "Next: gpumemprof ranks ."


def test_a_rank_that_another_speaks_for_says_what_went_wrong(tmp_path: Path) -> None:
    write(tmp_path, "import os, sys, torch\nkept = torch.ones(10)\nos.remove(sys.argv[1])\n")
    others = {"WORLD_SIZE": "2", "RANK": "1"}
    words = ["--cpu", "-o", "run.gmp", "train.py"]
    name = f"run.{socket.gethostname()}.rank1.gmp"
    done = run_recorded(tmp_path, *words, name, environment=others)
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"gpumemprof: rank 1: {name}: the file was deleted or replaced")


def test_names_rank_and_host_among_several(tmp_path: Path) -> None:
    write(tmp_path, TRAIN)
    run_recorded(tmp_path, "train.py", "10", "0", environment={"WORLD_SIZE": "2", "RANK": "1"})
    assert len(list(tmp_path.glob("train.*.rank1.*.gmp"))) == 1


def test_runs_a_module(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    write(tmp_path, "", "package/__init__.py")
    write(tmp_path, TRAIN, "package/train.py")
    done = run_recorded(tmp_path, "-o", "run.gmp", "-m", "package.train", "1000", "4")
    assert done.returncode == 4
    assert gpumemprof.load(tmp_path / "run.gmp").devices[0].peak.allocated_bytes == 1000


def test_files_of_a_package_are_shown_from_the_folder_that_it_is_in(tmp_path: Path) -> None:
    (tmp_path / "package/sub").mkdir(parents=True)
    write(tmp_path, "import torch\ndef grow(): return torch.empty(10)\n", "package/net.py")
    main = "from ..net import grow\nkept = grow()\nkept[99]\n"
    write(tmp_path, main, "package/sub/train.py")
    done = run_recorded(tmp_path, "--cpu", "-o", "run.gmp", "-m", "package.sub.train")
    assert done.returncode == 1
    text = str(gpumemprof.load(tmp_path / "run.gmp"))
    assert "package/net.py:2" in text
    assert "IndexError, raised at package/sub/train.py:3 <module>." in text
    assert "../" not in text


def test_an_exception_is_printed_as_python_would(tmp_path: Path) -> None:
    write(tmp_path, "import torch\nkept = torch.empty(10)\nraise ValueError('mine')\n")
    done = run_recorded(tmp_path, "-o", "run.gmp", "train.py")
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert "train.py" in lines[1]
    assert "ValueError: mine" in lines
    assert (tmp_path / "run.gmp").exists()


def test_a_report_says_which_exception_ended_the_program(tmp_path: Path) -> None:
    write(tmp_path, "import torch\nkept = torch.empty(10)\ndef fail(): {}['no']\nfail()\n")
    assert run_recorded(tmp_path, "--cpu", "-o", "run.gmp", "train.py").returncode == 1
    text = str(gpumemprof.load(tmp_path / "run.gmp"))
    assert text.splitlines()[1] == (
        "It ended by an exception: KeyError, raised at train.py:3 fail."
    )


@pytest.mark.parametrize(
    ("way", "code"),
    [
        ("kill", -signal.SIGKILL),
        ("term", -signal.SIGTERM),
        ("exit", 3),
        ("_exit", 3),
        ("exception", 1),
        ("crash", -signal.SIGSEGV),
    ],
)
def test_the_file_reaches_to_the_end_however_it_ends(tmp_path: Path, way: str, code: int) -> None:
    done = run_program(tmp_path, ENDINGS, way)
    assert done.returncode == code
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gpumemprof.CutFileWarning)
        recording = gpumemprof.load(tmp_path / "run.gmp")
    count = recording.report()["devices"][0]["events"]
    last_us = recording.report(at=count - 1)["devices"][0]["at"]["time_us"]
    assert -0.1 < float(done.stdout) - last_us / 1e6 < 1
    assert recording.devices[0].exact_from_event == 0


def test_memory_stays_bounded(tmp_path: Path) -> None:
    done = run_program(
        tmp_path,
        """
        import os, torch, gpumemprof
        def resident():
            return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        with gpumemprof.record("run.gmp", cpu=True) as recording:
            for _ in range(50_000):
                torch.empty(100)
            before = resident()
            for _ in range(600_000):
                torch.empty(100)
            grown = resident() - before
        assert recording.summary["lost_events"] == 0, recording.summary
        print(grown, recording.summary["size_bytes"] / recording.summary["events"])
        """,
    )
    assert done.returncode == 0, done.stderr
    grown, bytes_per_event = (float(word) for word in done.stdout.split())
    assert grown < 64 * 2**20
    assert bytes_per_event < 5


def test_a_program_that_forks_workers(tmp_path: Path) -> None:
    write(
        tmp_path,
        """
import torch
from torch.utils.data import DataLoader, TensorDataset
if __name__ == "__main__":
    data = TensorDataset(torch.randn(100, 10))
    print(sum(1 for _ in DataLoader(data, batch_size=10, num_workers=2)))
""",
    )
    done = run_recorded(tmp_path, "-o", "run.gmp", "train.py")
    assert (done.returncode, done.stdout) == (0, "10\n")
    assert done.stderr.count("Next: gpumemprof report run.gmp") == 1
    assert "2 child processes were recorded" in done.stderr
    assert gpumemprof.load(tmp_path / "run.gmp").devices[0].exact_from_event == 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "run needs a script"),
        (("missing.py",), "missing.py: no such script"),
        (("--xyz", "train.py"), "unknown flag '--xyz'; see gpumemprof run --help"),
        (("-o",), "-o needs a value"),
        (("-o", "train.py", "train.py"), "train.py exists; add -f"),
    ],
)
def test_a_mistake_is_one_sentence(tmp_path: Path, words: tuple[str, ...], sentence: str) -> None:
    write(tmp_path, TRAIN)
    done = run_recorded(tmp_path, *words)
    assert done.returncode == 2
    assert done.stderr.startswith(f"gpumemprof: {sentence}")
    assert len(done.stderr.splitlines()) == 1


def test_a_program_without_torch_runs_all_the_same(tmp_path: Path) -> None:
    write(tmp_path, "import sys\nprint('hello')\nsys.exit(6)\n")
    done = run_recorded(tmp_path, "train.py")
    assert (done.returncode, done.stdout) == (6, "hello\n")
    assert "never imported torch" in done.stderr
    assert list(tmp_path.glob("*.gmp")) == []


def test_a_full_disk_does_not_stop_the_program(tmp_path: Path) -> None:
    write(
        tmp_path,
        """
import resource, signal, torch
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
for size in range(20_000):
    torch.empty(1 + size * 37 % 10_007)
print("done")
""",
    )
    done = run_recorded(tmp_path, "-o", "run.gmp", "train.py")
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert "run.gmp: the file reached the largest size allowed here" in done.stderr
    assert not (tmp_path / "run.gmp").exists()


def test_starting_is_quick(tmp_path: Path) -> None:
    start = time.perf_counter()
    with gpumemprof.record(tmp_path / "run.gmp", cpu=True):
        pass
    assert time.perf_counter() - start < 1
