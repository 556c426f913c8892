"""What a failing program prints: torch's error raised by hand while CPU tensors are recorded."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

OPENING = """
import sys, threading, torch, gpumemprof
recording = gpumemprof.start("run.gmp", cpu=True, overwrite=True)
kept = torch.empty(50 << 20, dtype=torch.uint8)
TEXT = ("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 8.00 GiB of "
        "which 1.00 GiB is free. ")
def fail():
    raise torch.OutOfMemoryError(TEXT)
"""
HAS_NOTES = sys.version_info >= (3, 11)


def run(folder: Path, program: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "GPUMEMPROF_EXPLAIN_SECONDS": "120", **variables}
    return subprocess.run(
        [sys.executable, "-c", OPENING + program],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_an_uncaught_failure_ends_the_program_as_always_with_a_page(tmp_path: Path) -> None:
    done = run(tmp_path, "fail()")
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert lines[0] == "gpumemprof: out of memory: 2.00 GiB requested; recorded in run.gmp"
    assert lines[1] == "Traceback (most recent call last):"
    assert any(line.startswith("torch.OutOfMemoryError: CUDA out of memory.") for line in lines)
    assert done.stderr.count("In use: ") == 1
    assert "Next: gpumemprof report" in done.stderr
    # No frame of ours.
    assert "spot.py" not in done.stderr


def test_a_caught_failure_costs_one_line(tmp_path: Path) -> None:
    program = """
try: fail()
except torch.OutOfMemoryError as error:
    print(type(error).__name__, str(error) == TEXT, error.args == (TEXT,))
print("went on")
"""
    done = run(tmp_path, program)
    assert done.returncode == 0
    assert done.stdout == "OutOfMemoryError True True\nwent on\n"
    assert done.stderr == "gpumemprof: out of memory: 2.00 GiB requested; recorded in run.gmp\n"


def test_many_caught_failures_cost_few_lines(tmp_path: Path) -> None:
    program = """
for _ in range(200):
    try: fail()
    except torch.OutOfMemoryError: pass
"""
    done = run(tmp_path, program)
    assert done.returncode == 0
    assert len(done.stderr.splitlines()) == 5  # the first three, the tenth and the hundredth
    assert "(100 times so far)" in done.stderr


@pytest.mark.skipif(not HAS_NOTES, reason="exceptions have no notes before Python 3.11")
def test_a_logged_failure_has_a_short_note(tmp_path: Path) -> None:
    program = """
import logging
for _ in range(5):
    try: fail()
    except torch.OutOfMemoryError: logging.exception("next")
"""
    done = run(tmp_path, program)
    assert done.stderr.count("In use: ") == 3
    assert done.stderr.count("The recording explains it: gpumemprof report run.gmp") == 2
    assert "by line of your code" not in done.stderr


@pytest.mark.skipif(not HAS_NOTES, reason="exceptions have no notes before Python 3.11")
def test_notes_of_the_program_stay(tmp_path: Path) -> None:
    program = """
try: fail()
except torch.OutOfMemoryError as error:
    error.add_note("batch size 64")
    raise
"""
    done = run(tmp_path, program)
    assert done.returncode == 1
    assert "batch size 64\n" in done.stderr
    assert done.stderr.count("In use: ") == 1


def test_nothing_is_kept_alive(tmp_path: Path) -> None:
    program = """
import gc, weakref
class Big: pass
def train():
    big = Big()
    seen.append(weakref.ref(big))
    fail()
seen = []
gc.disable()
try: train()
except torch.OutOfMemoryError: pass
print(seen[0]() is None)
"""
    assert run(tmp_path, program).stdout == "True\n"


def test_a_failure_in_a_thread_gets_its_page_and_the_program_goes_on(tmp_path: Path) -> None:
    program = """
thread = threading.Thread(target=fail)
thread.start()
thread.join()
print("went on")
"""
    done = run(tmp_path, program)
    assert done.returncode == 0
    assert done.stdout == "went on\n"
    assert done.stderr.count("Exception in thread") == 1
    assert done.stderr.count("In use: ") == 1


def test_a_hook_of_the_program_is_called_and_the_page_still_printed(tmp_path: Path) -> None:
    program = """
ours = sys.excepthook
sys.excepthook = lambda kind, error, trace: print("mine", kind.__name__)
"""
    first = "import sys\nsys.excepthook = lambda kind, error, trace: print('mine', kind.__name__)\n"
    script = tmp_path / "train.py"
    script.write_text(first + OPENING + "fail()")
    done = subprocess.run(
        [sys.executable, "train.py"],
        cwd=tmp_path,
        env={**os.environ, "GPUMEMPROF_EXPLAIN_SECONDS": "120"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 1
    assert done.stdout == "mine OutOfMemoryError\n"
    assert done.stderr.count("In use: ") == 1
    replaced = run(tmp_path, program + "\nrecording.stop()\nrecording = None\nfail()")
    assert replaced.returncode == 1
    assert replaced.stdout == "mine OutOfMemoryError\n"


@pytest.mark.parametrize(
    "error",
    [
        "RuntimeError('CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate()`')",
        "MemoryError()",
    ],
)
def test_a_failure_that_torchs_allocator_did_not_raise_is_explained(
    tmp_path: Path, error: str
) -> None:
    done = run(tmp_path, f"raise {error}")
    assert done.returncode == 1
    assert "memory outside PyTorch's allocator ran out" in done.stderr
    assert done.stderr.count("In use: ") == 1


def test_a_failure_behind_another_exception_is_found(tmp_path: Path) -> None:
    program = """
try: fail()
except torch.OutOfMemoryError as error: raise ValueError("step failed") from error
"""
    done = run(tmp_path, program)
    assert done.returncode == 1
    assert done.stderr.count("In use: ") == 1
    assert done.stderr.rstrip().splitlines()[-1].startswith("ValueError") or not HAS_NOTES


def test_other_errors_are_left_alone(tmp_path: Path) -> None:
    done = run(tmp_path, "raise ValueError('no')")
    assert done.returncode == 1
    assert "gpumemprof" not in done.stderr
    assert done.stderr.splitlines()[-1] == "ValueError: no"


def test_nothing_is_explained_unless_something_is_recorded(tmp_path: Path) -> None:
    done = run(tmp_path, "recording.stop()\nfail()")
    assert done.returncode == 1
    assert "gpumemprof" not in done.stderr


def test_it_can_be_switched_off(tmp_path: Path) -> None:
    done = run(tmp_path, "fail()", GPUMEMPROF_EXPLAIN="0")
    assert done.returncode == 1
    assert "gpumemprof" not in done.stderr


def test_too_little_time_is_said_and_the_likely_cause_named(tmp_path: Path) -> None:
    done = run(tmp_path, "fail()", GPUMEMPROF_EXPLAIN_SECONDS="0.001")
    assert done.returncode == 1
    assert "probably a true shortage (from torch's message)" in done.stderr
    assert "The recording explains it: gpumemprof report run.gmp" in done.stderr
    assert "was ended" in done.stderr


def test_the_exception_can_be_pickled(tmp_path: Path) -> None:
    program = """
import pickle
try: fail()
except torch.OutOfMemoryError as error:
    getattr(error, "__notes__", None)
    again = pickle.loads(pickle.dumps(error))
    print(type(again) is type(error), again.args == error.args)
"""
    assert run(tmp_path, program).stdout == "True True\n"


def test_the_recording_is_complete_up_to_the_failure_even_if_the_process_is_killed(
    tmp_path: Path,
) -> None:
    program = """
import os, signal, time
later = torch.empty(33 << 20, dtype=torch.uint8)
try: fail()
except torch.OutOfMemoryError: gpumemprof._core.capture_flush_all(60_000)
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert run(tmp_path, program).returncode == -9
    import gpumemprof

    with pytest.warns(gpumemprof.CutFileWarning):
        (device,) = gpumemprof.load(tmp_path / "run.gmp").devices
    assert device.peak.allocated_bytes >= 83 << 20
