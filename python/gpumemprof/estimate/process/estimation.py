"""In the process of the predicted program: starts the engine, ends it in time, notes the facts."""

from __future__ import annotations

import os
import sys
import traceback
from types import TracebackType
from typing import Any

from gpumemprof.errors import Error
from gpumemprof.estimate.cards import find_card
from gpumemprof.estimate.process import facts
from gpumemprof.estimate.process.ending import StepLimit, TimeLimit
from gpumemprof.estimate.process.notes import Notes
from gpumemprof.estimate.process.request import Request
from gpumemprof.recorder.run_closing import print_message
from gpumemprof.torch_calls import readiness

__all__ = ["Estimation", "begin"]


class Estimation:
    """One predicted program, in its own process."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._card = find_card(request.card)
        self._notes = Notes()
        self._engine: Any = None
        self._time: TimeLimit | None = None
        self._steps: StepLimit | None = None

    def start(self) -> None:
        """Before the program's first line."""
        seconds = self._request.seconds
        if seconds is not None:
            self._time = TimeLimit(seconds, self._on_time)
            self._time.start()
        readiness.when_imported(self._start_engine)

    def first_facts(self) -> dict[str, str]:
        """For the recording, when it begins."""
        return facts.first_facts(self._card, self._request.limit_bytes)

    def finish(self) -> dict[str, str]:
        """Call at the program's end, while the recording is open; returns the last facts."""
        if self._time is not None:
            self._time.cancel()
        self._notes.steps = 0 if self._steps is None else self._steps.steps
        if not self._notes.ended:
            self._note_exception(getattr(sys, "last_value", None))
        self._notes.write(self._request.notes_path)
        found = {facts.ENDED: self._notes.ended}
        if self._engine is not None:
            found.update(facts.engine_facts(self._engine.end()))
        return found

    def _start_engine(self) -> None:
        try:
            from gpumemprof.estimate.engine import (  # type: ignore[import-not-found,unused-ignore]
                session,
            )

            self._engine = session.begin(
                self._card,
                limit_bytes=self._request.limit_bytes,
                assumed=self._request.assumed,
            )
        except Error as error:
            self._refuse(str(error))
        if self._request.steps is not None:
            self._steps = StepLimit(self._request.steps, self._on_step, self._on_last_step)
            self._steps.start()

    def _refuse(self, sentence: str) -> None:
        self._notes = Notes("exception", 0, sentence, is_prediction_refused=True)
        self._notes.write(self._request.notes_path)
        os._exit(_REFUSED_CODE)

    def _on_step(self, step: int) -> None:
        if self._request.shows_progress and self._time is not None:
            most = self._request.steps
            of = "" if most is None else f" of {most}"
            print_message(f"step {step}{of}, {self._time.passed_seconds:.0f} s")

    def _on_last_step(self) -> None:
        self._notes.ended = "steps"

    def _on_time(self) -> None:
        self._notes.ended = "limit"
        # The main thread may be anywhere, so it cannot be asked to end.
        os._exit(0)

    def _note_exception(self, error: BaseException | None) -> None:
        if error is None:
            self._notes.ended = "exit"
        elif type(error).__name__ == "OutOfMemoryError":
            self._notes.ended = facts.OUT_OF_MEMORY
        else:
            self._notes.ended = "exception"
            self._notes.is_prediction_refused = isinstance(error, Error)
            where = _user_line(error.__traceback__)
            what = str(error) if isinstance(error, Error) else _described(error)
            self._notes.problem = f"{where}: {what}" if where and where not in what else what


_REFUSED_CODE = 3
_LIBRARIES = ("site-packages", "dist-packages", os.sep + "gpumemprof" + os.sep, "<frozen")


def _described(error: BaseException) -> str:
    lines = str(error).splitlines()
    name = type(error).__name__
    return f"{name}: {lines[0]}" if lines else name


def _user_line(trace: TracebackType | None) -> str:
    """The innermost line of the program itself."""
    found = ""
    for frame, line in traceback.walk_tb(trace):
        file = frame.f_code.co_filename
        if not any(part in file for part in _LIBRARIES):
            found = f"{os.path.relpath(file)}:{line}"
    return found


def begin(text: str) -> Estimation:
    """Start as the request says."""
    estimation = Estimation(Request.read(text))
    estimation.start()
    return estimation
