"""In the process of the predicted program: starts the engine, ends it in time, notes the facts."""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path
from types import TracebackType

from gpumemprof.errors import Error
from gpumemprof.estimate.cards import find_card
from gpumemprof.estimate.process.ending import StepLimit, TimeLimit, end_main_thread
from gpumemprof.estimate.process.notes import Notes
from gpumemprof.estimate.process.request import Request
from gpumemprof.estimate.process.simulated_card import SimulatedCard
from gpumemprof.estimate.ranks.world import World
from gpumemprof.recorder.run_closing import print_message

__all__ = ["Estimation", "begin"]


class Estimation:
    """One predicted program, in its own process."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._notes = Notes()
        self._card = SimulatedCard(
            find_card(request.card),
            request.limit_bytes,
            request.assumed,
            None if request.world is None else World(**request.world),
        )
        self._time: TimeLimit | None = None
        self._steps: StepLimit | None = None
        self.device = self._card.device
        self.hidden_files = self._card.hidden_files

    def start(self) -> None:
        """Before the program's first line."""
        seconds = self._request.seconds
        if seconds is not None:
            self._time = TimeLimit(seconds, self._on_time)
            self._time.start()

    def settings(self) -> str:
        """The allocator's settings."""
        return self._card.settings()

    def begin(self) -> dict[str, str]:
        """Torch is imported."""
        try:
            found = self._card.begin()
        except Error as error:
            self._refuse(str(error))
            raise
        if self._request.steps is not None:
            self._steps = StepLimit(self._request.steps, self._on_step, self._on_last_step)
            self._steps.start()
        self._print_no_refusals()
        return found

    def end(self) -> dict[str, str]:
        """The program has ended, and the recording is about to be closed."""
        if self._time is not None:
            self._time.cancel()
        self._notes.steps = 0 if self._steps is None else self._steps.steps
        if not self._notes.ended:
            self._note_exception(getattr(sys, "last_value", None))
        self._notes.write(self._request.notes_path)
        return self._card.end(self._notes.ended)

    def _refuse(self, sentence: str) -> None:
        self._notes = Notes("exception", 0, sentence, is_prediction_refused=True)
        self._notes.write(self._request.notes_path)
        os._exit(_REFUSED_CODE)

    @staticmethod
    def _print_no_refusals() -> None:
        """The command prints the sentence, at the very end."""
        show = sys.excepthook

        def hook(
            kind: type[BaseException], error: BaseException, trace: TracebackType | None
        ) -> None:
            if not isinstance(error, Error):
                show(kind, error, trace)

        sys.excepthook = hook

    def _on_step(self, step: int) -> None:
        if self._request.shows_progress and self._time is not None:
            most = self._request.steps
            of = "" if most is None else f" of {most}"
            print_message(f"step {step}{of}, {self._time.passed_seconds:.0f} s")

    def _on_last_step(self) -> None:
        self._notes.ended = "steps"

    def _on_time(self) -> None:
        self._notes.ended = "limit"
        end_main_thread()

    def _note_exception(self, error: BaseException | None) -> None:
        if error is None:
            self._notes.ended = "exit"
        elif type(error).__name__ == "OutOfMemoryError":
            self._notes.ended = "out of memory"
        else:
            self._notes.ended = "exception"
            self._notes.is_prediction_refused = isinstance(error, Error)
            where = _user_line(error.__traceback__)
            what = str(error) if isinstance(error, Error) else _described(error)
            is_said = not where or isinstance(error, Error)
            self._notes.problem = what if is_said else f"{where}: {what}"


_REFUSED_CODE = 3
_OWN_FOLDER = str(Path(__file__).resolve().parents[2])
_LIBRARIES = ("site-packages", "dist-packages", _OWN_FOLDER, "<frozen")


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
