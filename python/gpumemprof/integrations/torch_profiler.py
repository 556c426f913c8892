"""A handler for torch.profiler that keeps a recording beside each of its traces.

::

    from gpumemprof.integrations.torch_profiler import recording_handler

    with torch.profiler.profile(
        schedule=torch.profiler.schedule(wait=1, warmup=1, active=3),
        on_trace_ready=recording_handler("traces"),
    ) as profiler: ...
"""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any, Callable

from gpumemprof.recorder.active import ActiveRecording
from gpumemprof.recorder.api import start

__all__ = ["RecordingHandler", "recording_handler"]


class RecordingHandler:
    """Called by torch.profiler whenever a trace is ready; made by `recording_handler`."""

    def __init__(
        self,
        folder: str | os.PathLike[str],
        worker_name: str | None,
        then: Callable[[Any], Any] | None,
        options: dict[str, Any],
    ) -> None:
        """Use `recording_handler` instead."""
        self._folder = Path(folder)
        self._worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        self._then = then
        self._options = options
        self.paths: list[str] = []
        """The recordings that are complete."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._recording: ActiveRecording | None = self._start()

    def _start(self) -> ActiveRecording:
        path = self._folder / f"{self._worker}.{len(self.paths)}.gmp"
        return start(path, **self._options)

    def __call__(self, profiler: Any) -> None:
        """A trace is ready: complete the recording, and begin the next."""
        self._complete()
        if self._then is not None:
            self._then(profiler)
        self._recording = self._start()

    def _complete(self) -> None:
        if self._recording is not None:
            self._recording.stop()
            self.paths.append(self._recording.path)
            self._recording = None

    def close(self) -> None:
        """End the recording of what came after the last trace; without it, it ends at exit."""
        self._complete()


def recording_handler(
    folder: str | os.PathLike[str],
    worker_name: str | None = None,
    *,
    then: Callable[[Any], Any] | None = None,
    **options: Any,
) -> RecordingHandler:
    """For ``on_trace_ready``: a recording for each trace, from the end of the one before.

    ::

        on_trace_ready = recording_handler("traces", then=tensorboard_trace_handler("traces"))

    Recording begins at once.

    Args:
        folder: where the recordings go, as ``HOST_PID.0.gmp`` and so on.
        worker_name: instead of ``HOST_PID``.
        then: another handler, called after this one.
        options: as for `gpumemprof.start`.
    """
    return RecordingHandler(folder, worker_name, then, options)
