"""The recordings that a trainer's callback makes: a file for each rank, and for each training."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any, Union

from gpumemprof.recorder.active import ActiveRecording
from gpumemprof.recorder.api import start

__all__ = ["CallbackRecordings"]

_Path = Union[str, "os.PathLike[str]"]


class CallbackRecordings:
    """Begins a recording when a trainer starts to work, and ends it when that is over.

    Ranks of one job write ``run.HOST.rank3.gmp``, as under ``gpumemprof run``. A trainer that works
    again, to test after it has trained or in another cell of a notebook, writes ``run.2.gmp``.
    """

    def __init__(self, output: _Path | None, options: dict[str, Any]) -> None:
        """Without an output nothing is ever recorded."""
        self._output = None if output is None else Path(output)
        self._options = options
        self._begun = 0
        self.latest: ActiveRecording | None = None
        """What is being recorded, or was."""

    def __getstate__(self) -> dict[str, Any]:
        """For trainers that start processes of their own: each records for itself."""
        return {**vars(self), "latest": None}

    def begin(self, rank: int, ranks: int) -> None:
        """Begin the next recording; one that an exception has left open ends.

        Raises:
            Error: the file cannot be written, or already exists.
        """
        if self._output is None:
            return
        self.end()
        path = self._output
        whose = f".{socket.gethostname()}.rank{rank}" if ranks > 1 else ""
        number = "" if self._begun == 0 else f".{self._begun + 1}"
        self.latest = start(
            path.with_name(f"{path.stem}{whose}{number}{path.suffix}"), **self._options
        )
        self._begun += 1

    def end(self, reason: str = "stop") -> None:
        """End the recording that is open, if one is."""
        if self.latest is not None:
            self.latest.stop(reason)
