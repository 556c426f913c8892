"""The program ends after the steps that were asked for, all its optimizers included."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import logging
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from gpumemprof.estimate.process import ending
from gpumemprof.estimate.process.crashes import STUCK_SIGNAL, take_crash_line
from gpumemprof.estimate.process.ending import EnoughSteps, StepLimit, TimeLimit
from gpumemprof.estimate.process.program_lines import main_line


class Optimizer:
    """One that only counts."""

    def __init__(self, limit: StepLimit) -> None:
        self.limit = limit
        self.steps = 0

    def step(self) -> None:
        self.limit.before_step(self)
        self.steps += 1
        self.limit.after_step(self)


class Told:
    def __init__(self) -> None:
        self.steps: list[int] = []
        self.ends = 0

    def end(self) -> None:
        self.ends += 1


def limited(most: int) -> tuple[StepLimit, Told]:
    told = Told()
    return StepLimit(most, told.steps.append, told.end), told


def test_one_optimizer_ends_after_its_last_step() -> None:
    limit, told = limited(3)
    optimizer = Optimizer(limit)
    with pytest.raises(EnoughSteps) as raised:
        while True:
            optimizer.step()
    assert optimizer.steps == 3
    assert (told.steps, told.ends) == ([1, 2, 3], 1)
    assert raised.value.code == 0
    # The program's own objects are gone when the end is reported.
    del optimizer, raised
    gc.collect()
    assert limit.steps == 3


def test_two_optimizers_both_get_their_last_step() -> None:
    limit, told = limited(3)
    first, second = Optimizer(limit), Optimizer(limit)
    with pytest.raises(EnoughSteps):
        while True:
            first.step()
            second.step()
    assert (first.steps, second.steps, told.ends) == (3, 3, 1)


def test_an_optimizer_that_steps_rarely_does_not_keep_the_program_running() -> None:
    limit, _ = limited(3)
    often, rarely = Optimizer(limit), Optimizer(limit)
    with pytest.raises(EnoughSteps):
        for number in range(100):
            often.step()
            if number % 5 == 0:
                rarely.step()
    assert (often.steps, rarely.steps) == (3, 1)


def test_a_single_step_includes_every_optimizer() -> None:
    limit, _ = limited(1)
    first, second = Optimizer(limit), Optimizer(limit)
    with pytest.raises(EnoughSteps):
        while True:
            first.step()
            second.step()
    assert (first.steps, second.steps) == (1, 1)


class Left(BaseException):
    """The process is gone."""


def test_a_program_that_catches_the_end_is_ended_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limit, told = limited(2)
    optimizer = Optimizer(limit)

    def leave(code: int) -> None:
        raise Left(code)

    monkeypatch.setattr("os._exit", leave)
    optimizer.step()
    with contextlib.suppress(EnoughSteps):
        optimizer.step()
    with pytest.raises(Left) as raised:
        optimizer.step()
    assert raised.value.args == (0,)
    assert (optimizer.steps, told.ends) == (2, 1)


def test_time_that_is_over_is_noticed_and_a_program_that_has_ended_is_left_alone() -> None:
    over = threading.Event()
    TimeLimit(0.01, over.set, lambda: None).start()
    assert over.wait(10)
    ended: list[str] = []
    limit = TimeLimit(0.2, lambda: ended.append("over"), lambda: None)
    limit.start()
    limit.cancel()
    limit._thread.join(10)
    assert not limit._thread.is_alive()
    assert ended == []


def test_the_line_of_the_main_thread_is_known_in_another_thread() -> None:
    found: list[str] = []
    thread = threading.Thread(target=lambda: found.append(main_line()))
    thread.start()
    thread.join()
    assert "test_estimate_ending.py:" in found[0]


def test_an_end_that_is_on_its_way_does_not_reach_a_recording_that_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ending, "_is_ending", threading.Event())
    limit = TimeLimit(1000, lambda: None, lambda: None)
    main = ctypes.c_ulong(threading.main_thread().ident or 0)
    has_lock = threading.Event()

    def raise_in_main() -> None:
        with ending._lock:
            has_lock.set()
            time.sleep(0.2)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(main, ctypes.py_object(EnoughSteps))

    thread = threading.Thread(target=raise_in_main)
    thread.start()
    has_lock.wait()
    limit.cancel()
    thread.join()
    assert limit._is_over.is_set()
    # Nothing more is sent, whoever asks.
    ending.end_main_thread()
    for _ in range(1000):
        pass


def test_a_profiler_works_after_the_end() -> None:
    program = """
import sys
from gpumemprof.estimate.process.ending import TimeLimit
limit = TimeLimit(1000, lambda: None, lambda: None)
limit.start()
limit.cancel()
calls = []
sys.setprofile(lambda frame, event, _: calls.append(event))
(lambda: None)()
sys.setprofile(None)
sys.exit("call" not in calls)
"""
    # Python 3.11 would not return from the call.
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_the_main_thread_is_not_interrupted_inside_an_operation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ident = threading.main_thread().ident

    def frames_in(file: str) -> Any:
        code = compile("import sys\nframe = sys._getframe()", file, "exec")
        space: dict[str, Any] = {}
        exec(code, space)
        return lambda: {ident: space["frame"]}

    monkeypatch.setattr(sys, "_current_frames", frames_in(ending.__file__))
    assert ending._is_inside_an_operation()
    monkeypatch.setattr(sys, "_current_frames", frames_in("/program/train.py"))
    assert not ending._is_inside_an_operation()
    assert ending._is_main_running()  # this thread, just now
    assert ending._main_seconds() > 0


def run_watched(folder: Path, *lines: str) -> subprocess.CompletedProcess[str]:
    """A program of these lines, whose crashes and replacement are watched."""
    (folder / "train.py").write_text("\n".join(lines))
    start = (
        "import runpy\n"
        "from gpumemprof.estimate.process.crashes import watch_crashes, watch_replacement\n"
        "def refuse(sentence):\n"
        "    print(sentence, flush=True)\n"
        "    raise SystemExit(3)\n"
        "watch_crashes('notes')\n"
        "watch_replacement(refuse)\n"
        "runpy.run_path('train.py', run_name='__main__')\n"
    )
    return subprocess.run(
        [sys.executable, "-c", start], cwd=folder, capture_output=True, text=True, check=False
    )


def test_the_line_of_a_crash_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = run_watched(
        tmp_path, "import ctypes", "def read():", "    ctypes.string_at(0)", "read()"
    )
    assert found.returncode == -signal.SIGSEGV
    # It is in a file, not among the program's own messages.
    assert found.stderr == ""
    assert take_crash_line(Path("notes")) == "train.py:3"
    assert take_crash_line(Path("notes")) == ""
    assert run_watched(tmp_path, "print('fine')").stdout == "fine\n"
    assert take_crash_line(Path("notes")) == ""


def test_the_line_is_known_of_compiled_code_that_lets_no_thread_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("\nprint('began', flush=True), sum(range(10**15))\n")
    start = (
        "import runpy\n"
        "from gpumemprof.estimate.process.crashes import watch_crashes\n"
        "watch_crashes('notes')\n"
        "runpy.run_path('train.py', run_name='__main__')\n"
    )
    command = [sys.executable, "-c", start]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "began\n"
        crash_file, text = tmp_path / "notes.crash", ""
        while process.poll() is None and " in <module>" not in text:
            process.send_signal(STUCK_SIGNAL)
            time.sleep(0.05)
            text = crash_file.read_text()
        process.kill()
    assert take_crash_line(Path("notes")) == "train.py:2"


def test_a_program_that_another_one_replaces_is_refused(tmp_path: Path) -> None:
    found = run_watched(
        tmp_path,
        "import os, sys",
        "if os.fork() == 0:",
        "    os.execv(sys.executable, [sys.executable, '-c', ''])",  # a process of its own
        "print(os.wait()[1], flush=True)",
        "os.execlp('sh', 'sh', '-c', 'echo replaced')",
    )
    assert found.returncode == 3
    status, sentence = found.stdout.splitlines()
    assert status == "0"
    assert sentence.startswith("train.py:5: the program starts ")
    assert "in its place, which is not predicted; leave that out" in sentence


def test_an_event_loop_does_not_log_the_end_as_an_error(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = logging.getLogger("asyncio")
    monkeypatch.setattr(log, "filters", [])
    limit, _ = limited(2)
    optimizer = Optimizer(limit)

    async def train() -> None:
        while True:
            optimizer.step()

    async def both() -> None:
        await asyncio.gather(train(), asyncio.sleep(0))

    with pytest.raises(EnoughSteps):
        asyncio.run(both())
    gc.collect()
    log.error("of the program", exc_info=ValueError("its own"))
    assert [record.message for record in caplog.records] == ["of the program"]


PROGRAM_WITH_A_THREAD = """
import os, sys, threading, time
from gpumemprof.estimate.process import ending
ending._SECONDS_BETWEEN_MESSAGES = 0.05
really_exit = os._exit
os._exit = lambda code: (print("left with", code, flush=True), really_exit(code))
threading.Thread(target=lambda: time.sleep(1000)).start()
ending.TimeLimit(1000, lambda: None, lambda: None).start()
print("main ends", flush=True)
"""


def test_a_thread_that_runs_forever_does_not_keep_an_ended_program() -> None:
    command = [sys.executable, "-c", PROGRAM_WITH_A_THREAD]
    found = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert found.stdout.splitlines() == ["main ends", "left with 0"]
    assert found.returncode == 0
