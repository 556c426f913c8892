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

import functools
import os
from pathlib import Path
from types import TracebackType
from typing import Any, Callable, TypeVar, Union

from gpumemprof.errors import UsageError
from gpumemprof.recorder import kept, open_recordings
from gpumemprof.recorder.active import ActiveRecording
from gpumemprof.same_name import check_name

__all__ = ["record", "start", "stop"]

_Function = TypeVar("_Function", bound=Callable[..., Any])
_Path = Union[str, "os.PathLike[str]"]


def start(
    path: _Path,
    *,
    stacks: bool = True,
    cpu: bool | None = None,
    overwrite: bool = False,
    labels: bool = True,
    keep: kept.Size | None = None,
    native_stacks: bool = False,
) -> ActiveRecording:
    """Start recording to a file; ends with `stop`, the recording's own ``stop()``, or at exit.

    >>> recording = gpumemprof.start("run.gmp")  # doctest: +SKIP

    Args:
        path: the file to write, usually ``*.gmp``.
        stacks: record the call stack of each event.
        cpu: record CPU tensors instead of CUDA memory; the default if there is no CUDA.
        overwrite: replace an existing file.
        labels: record which memory holds parameters, gradients, optimizer state and inputs.
        keep: how much of the disk to use at most, as ``"2GiB"`` or in bytes: `path` becomes a
            folder of chapters, and those that matter least are reduced to a summary.
        native_stacks: below the Python frames, also record the C++ frames of extension modules.

    Raises:
        Error: the file cannot be written, or already exists.
    """
    check_name()
    recording = ActiveRecording(
        path, stacks, cpu, overwrite, labels, keep=keep, native_stacks=native_stacks
    )
    with open_recordings.lock:
        open_recordings.started.append(recording)
    return recording


def stop() -> ActiveRecording:
    """End the recording most recently begun by `start`, and return it.

    >>> gpumemprof.stop().path  # doctest: +SKIP
    'run.gmp'

    Raises:
        UsageError: nothing is being recorded.
    """
    with open_recordings.lock:
        if not open_recordings.started:
            raise UsageError(
                "nothing is being recorded; call gpumemprof.start(path) first", "usage"
            )
        recording = open_recordings.started[-1]
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
        keep: kept.Size | None = None,
        native_stacks: bool = False,
    ) -> None:
        self._path = Path(path)
        self._options = {
            "stacks": stacks,
            "cpu": cpu,
            "overwrite": overwrite,
            "labels": labels,
            "keep": keep,
            "native_stacks": native_stacks,
        }
        self._uses = 0
        self._depth = 0
        self._recording: ActiveRecording | None = None

    def __enter__(self) -> ActiveRecording:
        with open_recordings.lock:
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
        with open_recordings.lock:
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
