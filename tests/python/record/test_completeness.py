"""Every event is recorded or counted as lost, and every output says what is missing."""

from __future__ import annotations

import base64
import json
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import warnings
import zlib
from pathlib import Path
from typing import Any

import gpumemprof
import pytest
from capture_programs import run_command, run_recorded
from live.growing import wait_until

# The recorder's thread shares one core with 16 busy ones, and gets only the time they leave.
STARVED = """
import os, sys, threading, torch
core = min(os.sched_getaffinity(0))
for thread in os.listdir("/proc/self/task"):
    os.sched_setaffinity(int(thread), {core})
    if open(f"/proc/self/task/{thread}/comm").read().strip() == "gpumemprof":
        os.sched_setscheduler(int(thread), os.SCHED_IDLE, os.sched_param(0))
made = [0] * 16
def work(number):
    for _ in range(20_000):
        torch.empty(100)
        made[number] += 1
threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(sum(made))
"""
ALLOCATIONS = 5_000
BRIEF = f"""
import os, sys, torch
for _ in range({ALLOCATIONS}):
    torch.empty(100)
"""


def recorded(folder: Path, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "train.py").write_text(program)
    return run_recorded(folder, "--cpu", "-o", "run.gmp", "train.py", *arguments)


def load(path: Path) -> gpumemprof.Recording:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gpumemprof.CutFileWarning)
        return gpumemprof.load(path)


def told(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return run_command(folder, ["-m", "gpumemprof", *words], None)


def rows(path: Path) -> dict[str, int]:
    """What the file holds, counted from its events."""
    reported = load(path).report()
    return {
        "events": reported["input"]["events"],
        "allocations": sum(d["counters"]["allocations"] for d in reported["devices"]),
        "frees": sum(d["counters"]["frees"] for d in reported["devices"]),
    }


@pytest.fixture(scope="module")
def starved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    folder = tmp_path_factory.mktemp("starved")
    done = recorded(folder, STARVED)
    assert done.returncode == 0, done.stderr
    return folder, int(done.stdout)


def test_made_is_recorded_and_lost(starved: tuple[Path, int]) -> None:
    folder, made = starved
    completeness = load(folder / "run.gmp").completeness
    assert completeness["lost"]["allocations"] > 0, "nothing was lost, so nothing was tested"
    for kind in ("allocations", "frees"):
        assert completeness["made"][kind] == made
        assert completeness["recorded"][kind] + completeness["lost"][kind] == made
        assert completeness["recorded"][kind] == rows(folder / "run.gmp")[kind]
    lost = sum(completeness["lost"].values())
    assert sum(gap["lost_events"] for gap in completeness["gaps"]) == lost
    assert all(gap["from_us"] <= gap["to_us"] for gap in completeness["gaps"])
    assert completeness["exact_until_us"] == completeness["gaps"][0]["from_us"]
    assert not completeness["is_whole"]


def test_every_output_says_what_was_lost(starved: tuple[Path, int]) -> None:
    folder, made = starved
    lost = sum(load(folder / "run.gmp").completeness["lost"].values())
    sentence = f"{lost:,} of {3 * made:,} events"  # a free is asked for, and done
    for words in (["report", "run.gmp"], ["advise", "run.gmp"]):
        first = " ".join(told(folder, *words).stdout.split("\n\n")[0].split())
        assert sentence in first, (words, first)
        assert "estimates" in first
    done = told(folder, "report", "--json", "run.gmp")
    assert done.returncode == 0
    assert sentence in json.loads(done.stdout)["completeness"]["what_is_missing"][0]
    told(folder, "report", "run.gmp", "--html", "run.html")
    page = (folder / "run.html").read_text()
    sections = re.findall(r'data-section="first">([^<]+)<', page)
    first = zlib.decompress(base64.b64decode(sections[0]), wbits=47).decode()
    assert sentence in first
    assert sentence in told(folder, "convert", "run.gmp", "--to", "gmp", "copy.gmp").stderr
    assert load(folder / "copy.gmp").completeness == load(folder / "run.gmp").completeness
    with pytest.warns(gpumemprof.CutFileWarning, match="were lost"):
        gpumemprof.load(folder / "run.gmp")


def test_an_end_by_exit_of_the_system_loses_nothing(tmp_path: Path) -> None:
    done = recorded(tmp_path, BRIEF + "os._exit(3)")
    assert done.returncode == 3
    completeness = load(tmp_path / "run.gmp").completeness
    assert completeness["is_whole"]
    assert completeness["ended"] == "_exit 3"
    assert completeness["recorded"]["allocations"] == ALLOCATIONS
    assert completeness["made"] == completeness["recorded"]


def test_a_child_that_shares_memory_ends_no_recording(tmp_path: Path) -> None:
    program = BRIEF + (
        "import subprocess\n"
        "try: subprocess.run(['/no/such/program'])\n"
        "except FileNotFoundError: pass\n"
        "if os.fork() == 0: os._exit(0)\n"
        "os.wait()\n"
        "kept = torch.empty(100)\n"
    )
    assert recorded(tmp_path, program).returncode == 0
    completeness = load(tmp_path / "run.gmp").completeness
    assert completeness["ended"] == "exit"
    assert completeness["made"]["allocations"] == ALLOCATIONS + 1


def test_a_killed_program_leaves_a_file_that_says_so(tmp_path: Path) -> None:
    program = BRIEF + "import signal, time; time.sleep(1.5); os.kill(os.getpid(), signal.SIGKILL)"
    assert recorded(tmp_path, program).returncode == -signal.SIGKILL
    done = told(tmp_path, "report", "run.gmp")
    assert done.returncode == 0
    assert "was not closed" in done.stdout.split("\n\n")[0]
    completeness = json.loads(told(tmp_path, "report", "--json", "run.gmp").stdout)["completeness"]
    assert completeness["is_closed"] is False
    assert completeness["ended"] is completeness["made"] is completeness["lost"] is None
    assert completeness["recorded"]["allocations"] == ALLOCATIONS
    with pytest.warns(gpumemprof.CutFileWarning, match="was not closed"):
        gpumemprof.load(tmp_path / "run.gmp")
    told(tmp_path, "convert", "run.gmp", "--to", "gmp", "copy.gmp")
    assert load(tmp_path / "copy.gmp").completeness["is_closed"] is False


def test_a_report_looks_whether_the_program_still_runs(tmp_path: Path) -> None:
    program = BRIEF + "sys.stdin.read()"
    words = [sys.executable, "-m", "gpumemprof", "run", "--cpu", "-o", "run.gmp", "-c", program]
    report = ["report", "--json", "run.gmp"]
    with subprocess.Popen(words, cwd=tmp_path, stdin=subprocess.PIPE) as running:
        wait_until(lambda: "the program is still running" in told(tmp_path, *report).stdout)
        running.kill()
    # It has only just grown: a process that this machine does not show may write it.
    assert "the program was killed, or is still running" in told(tmp_path, *report).stdout
    os.utime(tmp_path / "run.gmp", (0, 0))
    assert "the program was killed. What" in told(tmp_path, *report).stdout


def test_a_full_disk_ends_the_recording_with_its_reason(tmp_path: Path) -> None:
    # A limit on the size of files stands for a disk that fills up.
    program = """
import random, resource, torch
resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, resource.RLIM_INFINITY))
for _ in range(150_000):
    torch.empty(random.randrange(1, 1000))
"""
    assert recorded(tmp_path, program).returncode == 0
    completeness = load(tmp_path / "run.gmp").completeness
    assert completeness["is_closed"]
    assert "largest size" in completeness["problem"]
    assert completeness["made"]["allocations"] == 150_000
    assert 0 < completeness["recorded"]["allocations"] < 150_000
    for kind in ("allocations", "frees"):
        recorded_and_lost = completeness["recorded"][kind] + completeness["lost"][kind]
        assert recorded_and_lost == completeness["made"][kind]
    done = told(tmp_path, "report", "run.gmp")
    assert done.returncode == 0
    assert "Recording stopped early" in done.stdout.split("\n\n")[0]


def test_a_complete_recording_says_nothing_of_it(tmp_path: Path) -> None:
    assert recorded(tmp_path, BRIEF).returncode == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        completeness = gpumemprof.load(tmp_path / "run.gmp").completeness
    assert completeness["is_whole"]
    assert completeness["what_is_missing"] == []
    # A free is requested, and completed.
    every = {"allocations": ALLOCATIONS, "frees": ALLOCATIONS, "others": ALLOCATIONS}
    assert completeness["made"] == completeness["recorded"] == every


def test_every_command_counts_the_same_events(tmp_path: Path) -> None:
    assert recorded(tmp_path, BRIEF).returncode == 0
    events = len(gpumemprof.load(tmp_path / "run.gmp").events)
    assert events == 3 * ALLOCATIONS
    info = told(tmp_path, "info", "run.gmp").stdout
    assert f"  {events:,} made, {events:,} recorded, 0 lost" in info
    assert f" of {events:,}, " in told(tmp_path, "report", "run.gmp").stdout
    live = json.loads(told(tmp_path, "live", "run.gmp", "--once", "--json").stdout)
    assert live["recordings"][0]["devices"][0]["events"] == events


def test_a_snapshot_does_not_say_how_it_ended() -> None:
    completeness = gpumemprof.load(gpumemprof.demo_path()).completeness
    assert completeness["is_whole"] is completeness["is_closed"] is completeness["made"] is None


def test_a_program_that_closes_and_reuses_every_descriptor(tmp_path: Path) -> None:
    program = """
import os, time, torch
for _ in range(1000): torch.empty(100)
time.sleep(0.6)
os.closerange(3, 1 << 16)
mine = os.open("mine.txt", os.O_WRONLY | os.O_CREAT)
for number in range(3, 4096):
    if number != mine: os.dup2(mine, number)
os.write(mine, b"x" * 60)
for _ in range(100_000): torch.empty(100)
time.sleep(0.6)
"""
    done = recorded(tmp_path, program)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "mine.txt").read_bytes() == b"x" * 60
    completeness = load(tmp_path / "run.gmp").completeness
    assert completeness["is_whole"]
    assert completeness["recorded"]["allocations"] == 101_000


def test_a_program_without_standard_output(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(BRIEF + "\ntry: os.write(1, b'text')\nexcept OSError: pass")
    command = f"{sys.executable} -m gpumemprof run --cpu -o run.gmp train.py 0<&- 1>&-"
    done = subprocess.run(["sh", "-c", command], cwd=tmp_path, timeout=60, check=False)
    assert done.returncode == 0
    completeness = load(tmp_path / "run.gmp").completeness
    assert completeness["is_whole"]
    assert completeness["made"]["allocations"] == ALLOCATIONS


def test_a_recording_that_was_deleted_is_not_advertised_as_whole(tmp_path: Path) -> None:
    done = recorded(tmp_path, BRIEF + "os.remove('run.gmp')")
    assert done.returncode == 0
    assert "deleted or replaced" in done.stderr


def test_two_recordings_do_not_share_a_file(tmp_path: Path) -> None:
    recording = gpumemprof.start(tmp_path / "run.gmp", cpu=True)
    with pytest.raises(gpumemprof.UsageError, match="written by another"):
        gpumemprof.start(tmp_path / "run.gmp", cpu=True, overwrite=True)
    recording.stop()
    assert load(tmp_path / "run.gmp").completeness["is_closed"]


def _few_threads() -> None:
    import resource

    if os.geteuid() == 0:  # the limit does not apply to root
        os.setgid(65534)
        os.setuid(65534)
    resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))


def test_without_a_thread_the_program_runs_unrecorded() -> None:
    folder = Path(tempfile.mkdtemp())
    try:
        folder.chmod(0o777)
        (folder / "train.py").write_text("import torch; torch.empty(10); print('done')")
        done = subprocess.run(
            [sys.executable, "-m", "gpumemprof", "run", "--cpu", "train.py"],
            cwd=folder,
            env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            preexec_fn=_few_threads,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    except PermissionError:
        pytest.skip("this Python cannot be run by another user")
    finally:
        shutil.rmtree(folder)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    assert done.stderr.count("no thread could be started") == 1


@pytest.mark.parametrize(
    "words",
    [
        ["demo"],
        ["demo", "--json"],
        ["report", "DEMO"],
        ["report", "DEMO", "--json"],
        ["simulate", "DEMO"],
        ["advise", "DEMO"],
        ["convert", "DEMO", "--to", "gmp", "copy.gmp"],
        ["--help"],
        ["--version"],
        ["run", "--help"],
    ],
)
def test_output_that_cannot_be_written_is_an_error(tmp_path: Path, words: list[str]) -> None:
    command = [str(gpumemprof.demo_path()) if word == "DEMO" else word for word in words]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "gpumemprof", *command],
            cwd=tmp_path,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 4, done.stderr
    assert "the output could not be written (No space left on device)" in done.stderr
    assert "Traceback" not in done.stderr


def _events(with_stacks: bool) -> list[dict[str, Any]]:
    """A request after empty_cache(), which torch does not count as a retry."""
    request = [{"name": "train", "filename": "train.py", "line": 3}]
    flush = [{"name": "empty_cache", "filename": "torch/cuda/memory.py", "line": 9}, *request]
    size = 32 << 20

    def event(action: str, address: int, frames: list[dict[str, Any]]) -> dict[str, Any]:
        shown = frames if with_stacks else []
        return {"action": action, "addr": address, "size": size, "stream": 0, "frames": shown}

    first, second = 0x7F0000000000, 0x7F1000000000
    return [
        event("segment_alloc", first, request),
        event("alloc", first, request),
        event("free_requested", first, request),
        event("free_completed", first, request),
        event("segment_free", first, flush),
        event("segment_alloc", second, request),
        event("alloc", second, request),
    ]


@pytest.mark.parametrize(("with_stacks", "retries"), [(True, 0), (False, None)])
def test_emptying_the_cache_is_no_retry(
    tmp_path: Path, with_stacks: bool, retries: int | None
) -> None:
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(pickle.dumps({"segments": [], "device_traces": [_events(with_stacks)]}))
    assert gpumemprof.load(path).devices[0].counters.alloc_retries == retries
    assert "retr" not in told(tmp_path, "report", str(path)).stdout
