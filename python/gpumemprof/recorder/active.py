"""Live recording: streams every allocator event of this process to a ``.gmp`` file as it runs.

::

    with gpumemprof.record("run.gmp"):
        for batch in loader:
            gpumemprof.step()
            with gpumemprof.tag("forward"):
                ...

Recordings may overlap, nest and be made in any thread; each has its own file. However the process
ends, the file is missing at most its last second. A forked child does not record, unless its
program runs under ``gpumemprof run``, which gives each process its own file.
"""

from __future__ import annotations

import _thread
import atexit
import contextlib
import functools
import os
import platform
import socket
import sys
import tempfile
import threading
import warnings
from pathlib import Path
from types import TracebackType
from typing import Any, Callable, NoReturn, TypeVar, Union

from gpumemprof import _core, hooks
from gpumemprof.errors import Error, RecordingWarning, UsageError
from gpumemprof.read.recording import load
from gpumemprof.recorder.run_settings import recorded_command
from gpumemprof.torch_calls import allocator, cards, modules, readiness

__all__ = ["ActiveRecording", "record", "start", "stop"]

_Function = TypeVar("_Function", bound=Callable[..., Any])
_Path = Union[str, "os.PathLike[str]"]

_lock = threading.RLock()
_active: list[ActiveRecording] = []
_started: list[ActiveRecording] = []
_stack_problem: str | None = None
_is_prepared = False
_MOST_JOINS = 3
_WAYS = ("native", "recorder", "counters")


def _probe() -> bool:
    """Whether a raw walk of this thread's frames matches what Python reports."""
    raw, line = _core.capture_own_stack(), sys._getframe().f_lineno
    seen = []
    current: Any = sys._getframe()
    while current is not None:
        code = current.f_code
        seen.append((getattr(code, "co_qualname", code.co_name), code.co_filename, line))
        current = current.f_back
        line = current.f_lineno if current is not None else 0
    return raw == seen[: len(raw)] and len(raw) == min(len(seen), _MOST_FRAMES)


_MOST_FRAMES = 512


def _learn_thread_key() -> None:
    """Saves a call into Python for every event; nothing is lost if this fails."""
    is_found = _thread.allocate_lock()

    def find() -> None:
        try:
            _core.capture_find_thread_key()
        finally:
            is_found.release()

    is_found.acquire()
    with contextlib.suppress(RuntimeError):  # There may be too many threads.
        _thread.start_new_thread(find, ())
        is_found.acquire()
        _core.capture_use_thread_key()


def _why_no_stacks() -> str | None:
    try:
        _core.capture_prepare_stacks()
    except Error as error:
        return error.message
    _learn_thread_key()
    # Through a generator and a C function, whose frames are stored differently.
    if not _probe() or not next(_probe() for _ in (0,)) or not all(map(lambda _: _probe(), (0,))):  # noqa: C417
        return "this Python keeps its frames in a way gpumemprof does not know"
    return None


def _prepare() -> None:
    global _is_prepared, _stack_problem
    if _is_prepared:
        return
    _is_prepared = True
    _stack_problem = _why_no_stacks()
    atexit.register(_stop_all)
    if not _core.capture_watch_exit():
        _wrap_exit()


def _wrap_exit() -> None:
    """Close the recordings before ``os._exit``, where its system call cannot be intercepted."""
    end = os._exit

    @functools.wraps(end)
    def close_and_end(status: int) -> NoReturn:
        try:
            _core.capture_stop_all(f"_exit {status}")
        finally:
            end(status)

    os._exit = close_and_end


@functools.cache
def _why_no_forward_stacks() -> str | None:
    """Turn on forward stacks; returns why memory allocated in backward has none if that fails."""
    if _stack_problem is not None:
        return _stack_problem
    try:
        _core.capture_attach_autograd()
        first, second = modules.two_nodes()
        _core.capture_validate_autograd(first, first._sequence_nr(), second, second._sequence_nr())
    except Exception as error:
        return str(error)
    return None


@functools.cache
def _why_no_modules() -> str | None:
    """Turn on module attribution of allocations; returns why it is unavailable if that fails."""
    if _stack_problem is not None:
        return _stack_problem
    try:
        modules.follow_modules()
    except Exception as error:
        return str(error)
    return None


def _forget() -> None:
    """In a forked child: the recordings belong to the parent."""
    global _lock
    _lock = threading.RLock()
    for recording in _active:
        recording._number = None
    _active.clear()
    _started.clear()
    hooks.forget()


# Modules that start something in a child import this one first, so their hooks run after it.
os.register_at_fork(after_in_child=_forget)


def _stop_all() -> None:
    for recording in list(reversed(_active)):
        recording.stop("exit")


def _forced_way() -> str:
    """The capture method set in the environment, to try what an unknown torch would get."""
    way = os.environ.get("GPUMEMPROF_CAPTURE", "native")
    if way not in _WAYS:
        raise UsageError(f"GPUMEMPROF_CAPTURE is {way}, not one of {', '.join(_WAYS)}", "usage")
    return way


def _facts(command: str | None) -> dict[str, str]:
    facts = {
        "gpumemprof": _core.__version__,
        "python": platform.python_version(),
        "host": socket.gethostname(),
        "pid": str(os.getpid()),
        "command": recorded_command(sys.argv, False) if command is None else command,
    }
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"):
        if name in os.environ:
            facts[name.lower()] = os.environ[name]
    return facts


class ActiveRecording:
    """One recording and its file, made by `start` or `record`.

    ::

        recording = gpumemprof.start("run.gmp")
        ...
        recording.stop()
        print(recording.summary["events"], recording.notes)
    """

    def __init__(
        self,
        path: _Path,
        stacks: bool,
        cpu: bool | None,
        overwrite: bool,
        labels: bool = True,
        is_brief: bool = False,
        command: str | None = None,
        waits: bool = False,
    ) -> None:
        """Use `start` or `record` instead."""
        self.path = os.fspath(path)
        self.summary: dict[str, Any] = {}
        """What was recorded; filled by `stop`."""
        self.capture: str | None = None
        """How events are had: ``native``, ``recorder`` or ``counters``; None before memory is."""
        self.self_test: str | None = None
        """Whether the events were seen to add up to torch's own list of blocks: ``passed``,
        ``not done`` or ``failed: …``; None before the program's first allocation."""
        self.notes: list[str] = []
        """What could not be recorded as asked, a sentence each."""
        self._is_cpu = not readiness.has_cuda() if cpu is None else cpu
        self._has_stacks = stacks
        self._owns_recorder = False
        self._prover: threading.Thread | None = None
        self._retries: dict[int, int] = {}
        self._told_facts = _facts(command)
        self._has_labels = labels
        self._is_brief = is_brief
        self._is_watching = False
        # For processes recorded on behalf of another: no file without events, no messages.
        self._is_silent = waits
        with _lock:
            _prepare()
            if stacks and _stack_problem is not None:
                self.notes.append(f"stacks are not recorded: {_stack_problem}")
            self._number = self._open(overwrite, stacks and _stack_problem is None, waits)
            _active.append(self)
        readiness.when_imported(self._attach)

    def _open(self, overwrite: bool, stacks: bool, waits: bool) -> int | None:
        path = os.fsencode(self.path)
        try:
            return _core.capture_start(
                path, self._is_cpu, overwrite, stacks, waits, self._told_facts
            )
        except UsageError as error:
            # The core's hint names the command-line flag.
            hint = error.hint.replace("-f ", "overwrite=True ")
            raise UsageError(error.message, error.code, error.where, hint) from None

    @property
    def memory(self) -> str:
        """Which memory is recorded: ``cuda`` or ``cpu``.

        >>> recording.memory  # doctest: +SKIP
        'cuda'
        """
        return "cpu" if self._is_cpu else "cuda"

    def stop(self, reason: str = "stop") -> None:
        """End the recording; everything up to now is in the file. Calling it again does nothing.

        >>> recording.stop()  # doctest: +SKIP
        """
        if self.capture == "counters":
            self._add_facts(allocator.counter_facts())
        elif self.capture is not None and not self._is_cpu:
            with contextlib.suppress(Exception):
                self._add_facts(cards.limit_facts())
        self._add_retries()
        with _lock:
            number, self._number = self._number, None
            if number is None:
                return
            _active.remove(self)
            if self in _started:
                _started.remove(self)
        if self._is_watching:
            facts = hooks.leave(searches=not self._is_brief)
            self._told_facts.update(facts)
            _core.capture_add_facts(number, facts)
        self.summary = dict(_core.capture_stop(number, reason))
        if self._prover is not None and self._prover is not threading.current_thread():
            self._prover.join()
        if self.capture == "recorder":
            self._take_recorder()
        problem = str(self.summary.get("problem", ""))
        lost = self.summary.get("lost_events", 0)
        if problem:
            self.notes.append(problem)
        if lost and not problem:
            self.notes.append(f"{lost:,} events were lost: the recorder could not keep up")
        if self._is_silent:
            return
        for note in self.notes:
            warnings.warn(note, RecordingWarning, stacklevel=2)

    def _attach(self) -> None:
        """torch is imported; errors from it are ours, never the program's."""
        try:
            if self._number is None:
                return
            self._add_facts(readiness.torch_versions())
            if self._has_stacks:
                problem = _why_no_forward_stacks()
                state = "on" if problem is None else f"off: {problem}"
                self._add_facts({"forward_stacks": state})
                problem = _why_no_modules()
                state = "by instance" if problem is None else f"by line: {problem}"
                self._add_facts({"modules": state})
            if self._has_labels:
                self._is_watching = True
                hooks.watch()
            if self._is_cpu:
                _core.capture_attach_cpu()
                self._set_capture("native")
            else:
                readiness.when_cuda_is_ready(self._join)
        except Exception as error:
            self.notes.append(f"nothing is recorded: {error}")

    def _join(self) -> None:
        """CUDA is initialised."""
        number = self._number
        if number is None:
            return
        try:
            self._add_facts(cards.device_facts())
            for device, card in cards.card_ids().items():
                _core.capture_watch_card(device, card)
            way = _forced_way()
            if way != "native":
                raise UsageError(f"GPUMEMPROF_CAPTURE is {way}", "usage")
            self._join_native(number)
            self._retries = allocator.retry_counts()
            self._set_capture("native")
            self._start_prover(number)
        except Exception as error:
            self._fall_back(error)

    def _start_prover(self, number: int) -> None:
        prover = threading.Thread(
            target=self._prove, args=(number,), name="gpumemprof self-test", daemon=True
        )
        try:
            prover.start()
        except RuntimeError:  # There may be too many threads: the recording goes on untested.
            _core.capture_end_self_test(number, True)
            self.self_test = "not done"
            self._add_facts({"self_test": self.self_test})
        else:
            self._prover = prover

    def _prove(self, number: int) -> None:
        """Self-test once the program has allocated: its events must add up to torch's list."""
        try:
            while not _core.capture_wait_for_allocation(number, 60):
                if self._number is None:
                    return
            contradiction = self._contradiction(number)
        except Exception as error:
            contradiction = str(error)
        _core.capture_end_self_test(number, not contradiction)
        if contradiction is None:
            verdict = "not done"
        else:
            verdict = f"failed: {contradiction}" if contradiction else "passed"
        self._add_facts({"self_test": verdict})
        if contradiction:
            self._fall_back(UsageError(contradiction, "usage"))
        self.self_test = verdict

    def _contradiction(self, number: int) -> str | None:
        """Empty: none; None: could not be tested."""
        for attempt in range(_MOST_JOINS):
            with _lock:  # so that no other recording lists the blocks in between
                if self._number is None:
                    return None
                _core.capture_begin_self_test(number)
                try:
                    return _core.capture_finish_self_test(number, *allocator.list_state())
                except Error:
                    # The program may have taken a snapshot at the same moment.
                    if attempt + 1 == _MOST_JOINS:
                        raise
        return None

    def _add_facts(self, facts: dict[str, str]) -> None:
        self._told_facts.update(facts)
        number = self._number
        if number is not None:
            _core.capture_add_facts(number, facts)

    def _add_retries(self) -> None:
        """From torch's own count: events cannot distinguish a retry from empty_cache()."""
        if self._number is None or self.capture != "native" or not self._retries:
            return
        with contextlib.suppress(Exception):  # Missing counters must not make stop() fail.
            now = allocator.retry_counts()
            self._add_facts(
                {
                    f"device {device} num_alloc_retries": str(max(0, now[device] - before))
                    for device, before in self._retries.items()
                    if device in now
                }
            )

    def _fall_back(self, reason: Exception) -> None:
        """Use torch's own recorder, or only the card's counters."""
        try:
            if allocator.backend() != "native" or _forced_way() == "counters":
                raise UsageError(str(reason), "usage")
            self._owns_recorder = allocator.start_recorder(self._has_stacks)
            self.notes.append(
                f"torch's own recorder is used, which keeps its events in memory: {reason}"
            )
            self._set_capture("recorder")
        except Exception as error:
            self.notes.append(f"allocator events are not recorded: {error}")
            self._set_capture("counters")

    def _take_recorder(self) -> None:
        """Copy what torch's own recorder saw into the file."""
        try:
            with tempfile.TemporaryDirectory() as folder:
                snapshot = str(Path(folder) / "snapshot.pickle")
                allocator.dump_recorder(snapshot, self._owns_recorder)
                _core.capture_replace_with_snapshot(
                    os.fsencode(snapshot), os.fsencode(self.path), self._told_facts
                )
            self.summary["size_bytes"] = Path(self.path).stat().st_size
            self.summary["events"] = load(self.path).report(top=0)["input"]["events"]
        except Exception as error:
            self.notes.append(f"what torch's own recorder saw is lost: {error}")

    def _join_native(self, number: int) -> None:
        if allocator.backend() != "native":
            raise UsageError(
                f"torch uses the {allocator.backend()} allocator, which tells no events", "usage"
            )
        _core.capture_attach_cuda(*readiness.version())
        for attempt in range(_MOST_JOINS):
            _core.capture_begin_join(number)
            devices, segments = allocator.list_state()
            try:
                _core.capture_finish_join(number, devices, segments)
                break
            except Error:
                # Another thread may have taken a snapshot at the same moment.
                if attempt + 1 == _MOST_JOINS:
                    raise
        settings = allocator.allocator_settings()
        if not _core.capture_set_settings(number, settings, *readiness.version()):
            self.notes.append(f"the allocator settings were not understood: {settings}")
        self._add_facts({"settings": settings})

    def _set_capture(self, capture: str) -> None:
        self.capture = capture
        self._add_facts({"capture": capture})


def start(
    path: _Path,
    *,
    stacks: bool = True,
    cpu: bool | None = None,
    overwrite: bool = False,
    labels: bool = True,
) -> ActiveRecording:
    """Start recording to a file; ends with `stop`, the recording's own ``stop()``, or at exit.

    >>> recording = gpumemprof.start("run.gmp")  # doctest: +SKIP

    Args:
        path: the file to write, usually ``*.gmp``.
        stacks: record the call stack of each event.
        cpu: record CPU tensors instead of CUDA memory; the default if there is no CUDA.
        overwrite: replace an existing file.
        labels: record which memory holds parameters, gradients, optimizer state and inputs.

    Raises:
        Error: the file cannot be written, or already exists.
    """
    recording = ActiveRecording(path, stacks, cpu, overwrite, labels)
    with _lock:
        _started.append(recording)
    return recording


def stop() -> ActiveRecording:
    """End the recording most recently begun by `start`, and return it.

    >>> gpumemprof.stop().path  # doctest: +SKIP
    'run.gmp'

    Raises:
        UsageError: nothing is being recorded.
    """
    with _lock:
        if not _started:
            raise UsageError(
                "nothing is being recorded; call gpumemprof.start(path) first", "usage"
            )
        recording = _started[-1]
    recording.stop()
    return recording


class record:  # noqa: N801 - reads as a verb
    """Record a block of code, or every call of a function, into a file.

    ::

        with gpumemprof.record("run.gmp") as recording: ...


        @gpumemprof.record("train.gmp")
        def train(): ...

    Using the same object again writes ``run.2.gmp`` and so on; entering it again while it is open
    (by recursion, or from another thread) continues the open recording.

    Args: as for `start`.
    """

    def __init__(
        self,
        path: _Path,
        *,
        stacks: bool = True,
        cpu: bool | None = None,
        overwrite: bool = False,
        labels: bool = True,
    ) -> None:
        self._path = Path(path)
        self._options = {"stacks": stacks, "cpu": cpu, "overwrite": overwrite, "labels": labels}
        self._uses = 0
        self._depth = 0
        self._recording: ActiveRecording | None = None

    def __enter__(self) -> ActiveRecording:
        with _lock:
            if self._recording is None:
                path = self._path
                if self._uses > 0:
                    path = path.with_name(f"{path.stem}.{self._uses + 1}{path.suffix}")
                self._recording = ActiveRecording(path, **self._options)  # type: ignore[arg-type]
                self._uses += 1
            self._depth += 1
            return self._recording

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with _lock:
            self._depth -= 1
            if self._depth > 0 or self._recording is None:
                return
            recording, self._recording = self._recording, None
        recording.stop("stop" if kind is None else f"exception: {kind.__name__}")

    def __call__(self, function: _Function) -> _Function:
        @functools.wraps(function)
        def recorded(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return recorded  # type: ignore[return-value]
