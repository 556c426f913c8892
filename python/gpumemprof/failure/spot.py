"""Notices that memory ran out, and has it explained: in the exception's note and on the screen.

While something is recorded:

* raising torch's OutOfMemoryError prints one line, and sends the recording's last events to the
  file. The program may catch it and go on, so nothing else is done.
* The note of the exception (Python 3.11 and later) is made when somebody reads it: a traceback that
  is printed or logged has it, and an exception that is swallowed costs nothing.
* An exception that nobody catches gets a page: who holds the memory, what is new, what would help.
  Whatever it is, the recording knows its kind and place before it is printed: whoever sees the
  traceback, such as the launcher of other ranks, may end this process at once.

The exception, its traceback and the exit code stay the program's own. Nothing is allocated on a
GPU, no stream is waited for, and no exception is kept alive. Whatever goes wrong here is ignored.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Callable, NamedTuple

from gpumemprof import _core
from gpumemprof.failure import explanation, message
from gpumemprof.printable import print_line
from gpumemprof.recorder import open_recordings
from gpumemprof.recorder.program_end import EXCEPTION, failure_facts, reason_at_exit
from gpumemprof.torch_calls import cards, failures

__all__ = ["Event", "listeners", "watch"]

_HAS_NOTES = sys.version_info >= (3, 11)
_MOST_NOTES = 3  # explained while the program goes on; after that only the command is named
_FLUSH_MS = 500
_LINES_SHOWN = 3
_NARROWEST, _WIDEST = 60, 100


class Event(NamedTuple):
    """What happened, for alerts."""

    kind: str
    """``out_of_memory``, or ``exception``: one that nobody caught."""
    text: str
    device: str
    """Empty if it is not known, or of none."""
    unix_s: float


class _Raised(NamedTuple):
    path: str
    time_ns: int


class _Text(str):
    """A note that knows whether it was printed."""

    is_shown = False

    def __str__(self) -> str:
        self.is_shown = True
        return str.__str__(self)

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (str.__str__(self),)


_raised: weakref.WeakKeyDictionary[BaseException, _Raised] = weakref.WeakKeyDictionary()
_count = 0
_notes = 0
_last_path: str | None = None
listeners: list[Callable[[Event], None]] = []
"""Called in the thread that failed, before it goes on."""


@functools.cache
def watch() -> None:
    """Call when something is recorded and torch is imported."""
    kind = failures.out_of_memory_type()
    if kind is not None:
        _watch_type(kind)
    _watch_hooks()
    if _explains():
        _watch_notebook()


def _explains() -> bool:
    return os.environ.get("GPUMEMPROF_EXPLAIN", "1") != "0"


def _tell(kind: str, text: str, device: str = "") -> None:
    event = Event(kind, text, device, time.time())
    for listener in listeners.copy():
        with contextlib.suppress(Exception):
            listener(event)


def _tell_memory(error: BaseException) -> None:
    text = str(error)
    number, wanted = message.figures_of(text).device, message.request_of(text)
    device = "" if number is None else f"cuda:{number}"
    where = f" on {device}" if device else ""
    _tell(
        "out_of_memory", f"out of memory{where}{f': {wanted} requested' if wanted else ''}", device
    )


def _tell_uncaught(error: BaseException, facts: dict[str, str]) -> None:
    failed = _failed(error)
    kind = failures.out_of_memory_type()
    # The allocator's own said it when it was raised.
    if failed is not None and (kind is None or not isinstance(failed, kind)):
        _tell_memory(failed)
    place = facts.get("failure_place")
    where = f" in {place}" if place else ""
    why = " (another rank was gone)" if "failure_of_peer" in facts else ""
    _tell("exception", f"the program ended by {facts['failure_type']}{where}{why}")


def _watch_type(kind: type[BaseException]) -> None:
    make = kind.__init__

    @functools.wraps(make)
    def __init__(self: BaseException, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        make(self, *args, **kwargs)
        with contextlib.suppress(Exception):
            _on_raise(self)

    with contextlib.suppress(TypeError, AttributeError):  # a type that cannot be changed
        kind.__init__ = __init__  # type: ignore[method-assign]
        kind.__notes__ = _LateNotes()  # type: ignore[attr-defined]


class _LateNotes:
    """``__notes__`` of an exception that has none yet: made on first use.

    Not a data descriptor: once made, they are in the exception's own dictionary, where Python looks
    first.
    """

    def __get__(self, error: BaseException | None, owner: type | None = None) -> Any:
        if error is None:
            return self
        text = None
        with contextlib.suppress(Exception):
            text = _note(error)
        if not text:
            raise AttributeError("__notes__")
        notes = [_Text(text)]
        error.__dict__["__notes__"] = notes
        return notes


def _recording_path() -> str | None:
    """Where the newest recording goes; None if none is open, or it is a prediction."""
    for recording in reversed(open_recordings.active):
        if recording._simulation is None:
            return str(Path.cwd() / recording.path)
    return None


def _on_raise(error: BaseException) -> None:
    global _count, _last_path
    _tell_memory(error)
    path = _recording_path()
    if path is None or not _explains():
        return
    _last_path = path
    _count += 1
    with contextlib.suppress(Exception):
        _add_limits()
    _core.capture_flush_all(0)
    _raised[error] = _Raised(path, time.time_ns())
    if _count <= _LINES_SHOWN or _is_round(_count):
        _print_line(str(error), path)


def _add_limits() -> None:
    """A program may change its limit at any time; the failure depends on the current one."""
    for recording in open_recordings.active:
        if recording.memory == "cuda" and recording._simulation is None:
            recording._add_facts(cards.limit_facts())


def _is_round(count: int) -> bool:
    return str(count).rstrip("0") == "1"


def _print_line(text: str, path: str) -> None:
    wanted = message.request_of(text)
    number = "" if _count == 1 else f" ({_count:,} times so far)"
    what = f"out of memory: {wanted} requested" if wanted else "out of memory"
    print_line(f"gpumemprof: {what}{number}; recorded in {os.path.relpath(path)}")


def _question(error: BaseException, raised: _Raised) -> explanation.Question:
    kind = failures.out_of_memory_type()
    text = str(error)
    device = message.figures_of(text).device
    columns = shutil.get_terminal_size((80, 24)).columns
    return explanation.Question(
        path=raised.path,
        until_unix_ns=raised.time_ns,
        error=text,
        is_allocator=kind is not None and isinstance(error, kind),
        device=device,
        width=min(max(columns, _NARROWEST), _WIDEST),
    )


def _explain(error: BaseException, raised: _Raised) -> explanation.Explanation | None:
    with contextlib.suppress(Exception):
        _core.capture_flush_all(_FLUSH_MS)
    return explanation.ask(_question(error, raised))


def _report_command(path: str) -> str:
    return f"gpumemprof report {os.path.relpath(path)}"


def _short(error: BaseException, path: str) -> str:
    """What can be said without an analysis."""
    cause = message.sentence_of(str(error))
    start = f"gpumemprof: {cause} (from torch's message).\n  " if cause else "gpumemprof: "
    return f"{start}The recording explains it: {_report_command(path)}"


def _note(error: BaseException) -> str | None:
    """A few lines; for an exception that may have been caught."""
    global _notes
    raised = _raised.get(error)
    if raised is None:
        return None
    _notes += 1
    found = _explain(error, raised) if _notes <= _MOST_NOTES else None
    return found.note if found is not None else _short(error, raised.path)


def _page(error: BaseException) -> str | None:
    """Everything; for an exception that ends the program, or a thread of it."""
    raised = _raised.get(error) if type(error).__weakrefoffset__ else None
    if raised is None:
        path = _recording_path() or _last_path
        if path is None:
            return None
        raised = _Raised(path, time.time_ns())
    found = _explain(error, raised)
    if found is None:
        late = f"\n  The analysis took more than {explanation.most_seconds():g} s and was ended."
        return _short(error, raised.path) + late
    if found.is_cut:
        return f"{found.page}\n  This is shortened: the analysis was ended for lack of time."
    return found.page


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """The exception, its causes and the members of groups, each once."""
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        one = waiting.pop(0)
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        waiting += list(getattr(one, "exceptions", ()))
        waiting += [one.__cause__, None if one.__suppress_context__ else one.__context__]


def _failed(error: BaseException | None) -> BaseException | None:
    """The exception in the chain that says that memory ran out."""
    kind = failures.out_of_memory_type()
    for one in _chain(error):
        if (kind is not None and isinstance(one, kind)) or message.is_memory_failure(one):
            return one
    return None


def _attach_page(error: BaseException | None) -> _Text | None:
    """Put the page among the notes of an uncaught exception; None if it is about something else."""
    failed = _failed(error) if _explains() else None
    if failed is None:
        return None
    text = _page(failed)
    if text is None:
        return None
    page = _Text(text)
    if _HAS_NOTES:
        notes = [note for note in failed.__dict__.get("__notes__", []) if type(note) is not _Text]
        with contextlib.suppress(AttributeError, TypeError):  # slots, perhaps
            failed.__dict__["__notes__"] = [*notes, page]
    return page


def _show(page: _Text | None) -> None:
    if page is not None and not page.is_shown:
        print_line(str(page))


def _store_failure(error: BaseException) -> None:
    # Otherwise the program called the hook by itself, and goes on.
    is_uncaught = getattr(sys, "last_value", None) is error
    if not is_uncaught or not reason_at_exit().startswith(EXCEPTION):
        return
    facts = failure_facts()
    for recording in open_recordings.active:
        if recording._simulation is None:
            recording._add_facts(facts)
    _core.capture_flush_all(_FLUSH_MS)
    if not isinstance(error, KeyboardInterrupt):
        _tell_uncaught(error, facts)


def _watch_hooks() -> None:
    main_hook, thread_hook = sys.excepthook, threading.excepthook

    @functools.wraps(main_hook)
    def on_uncaught(
        kind: type[BaseException], error: BaseException, traceback: TracebackType | None
    ) -> None:
        page = None
        with contextlib.suppress(Exception):
            _store_failure(error)
        with contextlib.suppress(Exception):
            page = _attach_page(error)
        main_hook(kind, error, traceback)
        with contextlib.suppress(Exception):
            _show(page)

    @functools.wraps(thread_hook)
    def on_uncaught_in_thread(args: threading.ExceptHookArgs) -> None:
        page = None
        with contextlib.suppress(Exception):
            page = _attach_page(args.exc_value)
        thread_hook(args)
        with contextlib.suppress(Exception):
            _show(page)

    sys.excepthook = on_uncaught
    threading.excepthook = on_uncaught_in_thread


def _watch_notebook() -> None:
    """A notebook shows the errors of its cells itself, and not every version shows notes."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is None:
        return

    def after_cell(result: Any) -> None:
        with contextlib.suppress(Exception):
            failed = _failed(getattr(result, "error_in_exec", None))
            if failed is None:
                return
            notes = failed.__dict__.get("__notes__", [])
            if not any(type(note) is _Text and note.is_shown for note in notes):
                _show(_attach_page(failed))

    with contextlib.suppress(Exception):
        shell.events.register("post_run_cell", after_cell)
