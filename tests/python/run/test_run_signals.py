"""A signal that ends the program closes its recording first, and ends it all the same."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import gpumemprof
import pytest
from capture_programs import run_recorded
from gpumemprof import _core

ALLOCATE = """
import ctypes, os, signal, sys, torch
kept = [torch.empty(1000, dtype=torch.uint8) for _ in range(50)]
"""


def write(folder: Path, program: str) -> None:
    (folder / "train.py").write_text(ALLOCATE + program)


def report(path: Path) -> str:
    words = [sys.executable, "-m", "gpumemprof", "report", str(path)]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(
    ("way", "number"),
    [
        ("os.kill(os.getpid(), signal.SIGTERM)", signal.SIGTERM),
        ("os.kill(os.getpid(), signal.SIGHUP)", signal.SIGHUP),
        ("ctypes.string_at(0)", signal.SIGSEGV),
        ("os.abort()", signal.SIGABRT),
    ],
)
def test_nothing_is_lost(tmp_path: Path, way: str, number: signal.Signals) -> None:
    write(tmp_path, f"{way}\nprint('still there')\n")
    done = run_recorded(tmp_path, "--cpu", "-o", "run.gmp", "train.py")
    assert (done.returncode, done.stdout) == (-number, "")
    killed = f"killed by {number.name}"
    assert done.stderr == f"gpumemprof: the program was {killed}; its recording is run.gmp\n"
    recording = gpumemprof.load(tmp_path / "run.gmp")
    assert recording.devices[0].end.allocated_bytes == 50_000
    assert f"The program was {killed}." in report(tmp_path / "run.gmp")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_an_exception_is_known_of_a_program_that_is_killed_while_it_ends(
    tmp_path: Path, number: signal.Signals
) -> None:
    """As a launcher kills a rank whose traceback is on the screen already."""
    write(
        tmp_path,
        f"""
import atexit
atexit.register(os.kill, os.getpid(), {int(number)})
raise ConnectionError("Connection closed by peer")
""",
    )
    done = run_recorded(tmp_path, "--cpu", "-o", "run.gmp", "train.py")
    assert done.returncode == -number
    path = tmp_path / "run.gmp"
    ending = json.loads(_core.rank_summary(bytes(path), False).partition(b"\n")[0])["ending"]
    assert ending["failure_type"] == "ConnectionError"
    assert ending["failure_place"] == "train.py:7 <module>"
    assert ending["is_failure_of_peer"]
    if number == signal.SIGTERM:
        words = " ".join(report(path).split())
        assert "exception: ConnectionError, raised at train.py:7 <module>; while it" in words
        assert "killed by SIGTERM." in words


def test_an_exception_that_the_program_only_shows_did_not_end_it(tmp_path: Path) -> None:
    write(
        tmp_path,
        """
try: raise ValueError("odd data")
except ValueError: sys.excepthook(*sys.exc_info())
os.kill(os.getpid(), signal.SIGTERM)
""",
    )
    run_recorded(tmp_path, "--cpu", "-o", "run.gmp", "train.py")
    assert "The program was killed by SIGTERM." in report(tmp_path / "run.gmp")


def test_another_thread_may_be_in_the_middle_of_anything(tmp_path: Path) -> None:
    write(
        tmp_path,
        """
import threading
def work():
    while True: torch.empty(10)
for _ in range(4): threading.Thread(target=work, daemon=True).start()
os.kill(os.getpid(), signal.SIGTERM)
""",
    )
    done = run_recorded(tmp_path, "--cpu", "-o", "run.gmp", "train.py")
    assert done.returncode == -signal.SIGTERM
    assert gpumemprof.load(tmp_path / "run.gmp").report()["input"]["cut"] is None


def test_a_handler_of_the_program_is_called_as_ever(tmp_path: Path) -> None:
    write(
        tmp_path,
        """
print(signal.signal(signal.SIGTERM, lambda *_: sys.exit(3)) is signal.SIG_DFL)
os.kill(os.getpid(), signal.SIGTERM)
signal.pause()
""",
    )
    done = run_recorded(tmp_path, "--cpu", "-o", "run.gmp", "train.py")
    assert (done.returncode, done.stdout) == (3, "True\n")
    assert "killed" not in done.stderr
    assert "50 allocations, 0 frees in run.gmp" in done.stderr


def test_a_signal_that_is_ignored_stays_so(tmp_path: Path) -> None:
    write(tmp_path, "os.kill(os.getpid(), signal.SIGHUP)\nprint('goes on')\n")
    words = [sys.executable, "-m", "gpumemprof", "run", "--cpu", "-o", "run.gmp", "train.py"]
    done = subprocess.run(
        ["nohup", *words], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "goes on\n")


def test_a_forked_child_closes_its_own_recording_and_says_nothing(tmp_path: Path) -> None:
    write(
        tmp_path,
        """
if os.fork() == 0:
    more = torch.empty(7000, dtype=torch.uint8)
    os.kill(os.getpid(), signal.SIGTERM)
print(os.WTERMSIG(os.wait()[1]))
""",
    )
    done = run_recorded(tmp_path, "--cpu", "-o", "run.gmp", "train.py")
    assert (done.returncode, done.stdout) == (0, f"{int(signal.SIGTERM)}\n")
    assert "killed by" not in done.stderr
    (path,) = tmp_path.glob("run.*.gmp")
    recording = gpumemprof.load(path)
    assert recording.devices[0].end.allocated_bytes == 7000
    assert recording.report()["input"]["cut"] is None
