"""Ends a predicted program after some optimizer steps, or after some time."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import sys
import threading
import time
import weakref
from functools import cache
from pathlib import Path
from typing import Any, Callable

from gpumemprof.torch_calls.optimizers import watch_optimizers

__all__ = ["EnoughSteps", "StepLimit", "TimeLimit", "end_main_thread"]


class EnoughSteps(SystemExit):
    """Ends the program as ``sys.exit(0)`` would."""

    def __init__(self) -> None:
        super().__init__(0)


_ATTEMPTS = 16
_PATIENT_ATTEMPTS = 8
_SECONDS_BETWEEN = 0.5
_SECONDS_FOR_AN_OPERATION = 2.0
_MOST_SECONDS_FOR_AN_OPERATION = 20.0
_SECONDS_BETWEEN_LOOKS = 0.1
_SECONDS_BETWEEN_MESSAGES = 10.0
_TURNS_UNTIL_RAISED = 100  # Python raises it in the first turn of a loop
_lock = threading.Lock()
_is_ending = threading.Event()
"""The program has ended, and its recording is being closed."""


def end_main_thread() -> None:
    """End the program as ``sys.exit(0)`` would, from another thread.

    The main thread ends itself, so that it allocates nothing while the recording is closed: at its
    next operation, or, if it calls none, wherever it is. What does not heed it, such as a program
    that waits in C code, is ended all the same.
    """
    if "torch" in sys.modules:
        from gpumemprof.estimate.engine import session

        session.end_at_next_operation(EnoughSteps)
        if _ends_at_next_operation():
            return
    main = ctypes.c_ulong(threading.main_thread().ident or 0)
    raise_later = ctypes.pythonapi.PyThreadState_SetAsyncExc
    for attempt in range(_ATTEMPTS):  # A finalizer would swallow it.
        if attempt >= _PATIENT_ATTEMPTS or not _is_inside_an_operation():
            with _lock:
                if not _is_ending.is_set():
                    raise_later(main, ctypes.py_object(EnoughSteps))
        if _is_ending.wait(_SECONDS_BETWEEN):
            return
    os._exit(0)


def _ends_at_next_operation() -> bool:
    """Whether it did, in some time of the processor: a busy machine may give it little."""
    began = time.monotonic()
    used = _main_seconds()
    while not _is_ending.wait(_SECONDS_BETWEEN_LOOKS):
        passed = time.monotonic() - began
        has_had_time = _main_seconds() - used > _SECONDS_FOR_AN_OPERATION or not _is_main_running()
        if passed > _MOST_SECONDS_FOR_AN_OPERATION:
            return False
        if passed > _SECONDS_FOR_AN_OPERATION and has_had_time:
            return False
    return True


def _main_seconds() -> float:
    """What the main thread has used of a processor."""
    clock = time.pthread_getcpuclockid(threading.main_thread().ident or 0)
    return time.clock_gettime(clock)


def _is_main_running() -> bool:
    """Whether it runs or waits for a processor, not for something else."""
    try:
        stat = Path(f"/proc/self/task/{os.getpid()}/stat").read_text(encoding="ascii")
    except (OSError, UnicodeError):
        return False
    return stat.rpartition(")")[2].split()[0] == "R"


def _is_inside_an_operation() -> bool:
    """Whether the main thread is in torch's code or ours, which C++ may have called.

    An exception there may meet C++ that lets none through, and would abort the process.
    """
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    return frame is not None and frame.f_code.co_filename.startswith(_unsafe_folders())


@cache
def _unsafe_folders() -> tuple[str, ...]:
    folders = [Path(__file__).resolve().parents[2]]
    torch = sys.modules.get("torch")
    if torch is not None and torch.__file__ is not None:
        folders.append(Path(torch.__file__).parent)
    return tuple(f"{folder}{os.sep}" for folder in folders)


def _waits_for_threads() -> bool:
    """Whether the program has ended, but for threads of its own, which may run forever."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    while frame is not None and frame.f_back is not None:
        frame = frame.f_back
    return frame is not None and frame.f_code is threading._shutdown.__code__  # type: ignore[attr-defined]


# DistributedDataParallel wants 11 before a capture.
_MOST_WARM_UPS = 16


class StepLimit:
    """Counts steps, and raises `EnoughSteps` after the last.

    A program may have several optimizers, which it steps in turn: each that has stepped by the time
    the first one steps again gets its last step too.

    Steps on a stream of the program's own warm up for a CUDA graph, which takes memory later: they
    do not count, as long as they are few. A replay of a graph with a step in it is one.
    """

    def __init__(
        self, most: int, on_step: Callable[[int], None], on_end: Callable[[], None]
    ) -> None:
        self._most = most
        self._warm_ups: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._on_step = on_step
        self._on_end = on_end
        self._first: weakref.ref[Any] | None = None
        self._counts: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._has_ended = False
        self.steps = 0
        """Of the optimizer that stepped first."""

    def start(self) -> None:
        """Call once torch is imported."""
        watch_optimizers(self.before_step, lambda optimizer, _: self.after_step(optimizer))

    def before_step(self, optimizer: Any) -> None:
        """One more step than asked for: an optimizer of the last round did not take part in it."""
        if self._counts.get(optimizer, 0) >= self._most:
            self._end()

    def after_step(self, optimizer: Any) -> None:
        """Count it."""
        if not self._prepares_graph(optimizer):
            self._count(optimizer)

    def _prepares_graph(self, optimizer: Any) -> bool:
        if "torch" not in sys.modules:
            return False
        from gpumemprof.estimate.engine import session
        from gpumemprof.estimate.patches.cuda.graphs import capturing_graph

        running = session.active()
        if running is None or running.device.stream == 0:
            return False
        if (graph := capturing_graph()) is not None:
            known = weakref.ref(optimizer)  # A graph does not keep the optimizer.
            graph.on_replay.append(lambda: self._replay(known()))
            return True
        self._warm_ups[optimizer] = self._warm_ups.get(optimizer, 0) + 1
        return self._warm_ups[optimizer] <= _MOST_WARM_UPS

    def _replay(self, optimizer: Any) -> None:
        if optimizer is not None:
            self.before_step(optimizer)
            self._count(optimizer)

    def _count(self, optimizer: Any) -> None:
        if self._first is None or self._first() is None:
            self._first = weakref.ref(optimizer)
        self._counts[optimizer] = self._counts.get(optimizer, 0) + 1
        if optimizer is self._first():
            self.steps = self._counts[optimizer]
            self._on_step(self.steps)
        # In the first round, more optimizers may follow.
        is_round_known = self._most > 1
        if is_round_known and all(count >= self._most for count in self._counts.values()):
            self._end()

    def _end(self) -> None:
        if self._has_ended:
            # The program caught our exception, and would go on forever.
            os._exit(0)
        self._has_ended = True
        self._on_end()
        _keep_out_of_logs()
        raise EnoughSteps


def _keep_out_of_logs() -> None:
    """An event loop would log the end of its task as an error that nobody heard of."""
    if "asyncio" in sys.modules:
        logging.getLogger("asyncio").addFilter(
            lambda record: not isinstance((record.exc_info or (None, None))[1], EnoughSteps)
        )


class TimeLimit:
    """Calls back after some time, and now and then before, from a thread of its own."""

    def __init__(
        self, seconds: float, on_end: Callable[[], None], on_wait: Callable[[], None]
    ) -> None:
        self._seconds = seconds
        self._on_end = on_end
        self._on_wait = on_wait
        self._began = time.monotonic()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._wait, daemon=True)

    def start(self) -> None:
        """From now on."""
        self._thread.start()

    def _wait(self) -> None:
        while (left := self._seconds - self.passed_seconds) > 0:
            if self._is_over.wait(min(left, _SECONDS_BETWEEN_MESSAGES)):
                return
            if _waits_for_threads():
                os._exit(0)
            if self.passed_seconds < self._seconds:
                self._on_wait()
        self._on_end()

    def cancel(self) -> None:
        """The program has ended, and is not interrupted after this. For the main thread.

        An exception that is on its way is let in. Taking it back would leave Python 3.11 with the
        mark that one is waiting: it looks for it ever after, and hangs once a profiler is set.
        """
        while not self._is_over.is_set():
            with contextlib.suppress(EnoughSteps):
                with _lock:
                    _is_ending.set()
                for _ in range(_TURNS_UNTIL_RAISED):
                    pass
                self._is_over.set()

    @property
    def passed_seconds(self) -> float:
        """Since it was made."""
        return time.monotonic() - self._began
