"""In the process of the predicted program: starts the engine, ends it in time, notes the facts."""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
from dataclasses import replace
from types import TracebackType

from gpumemprof.errors import Error
from gpumemprof.estimate.cards import find_card
from gpumemprof.estimate.process.crashes import watch_crashes, watch_replacement
from gpumemprof.estimate.process.ending import StepLimit, TimeLimit, end_main_thread
from gpumemprof.estimate.process.facts import LIMIT_REACHED, OUT_OF_MEMORY
from gpumemprof.estimate.process.notes import Notes
from gpumemprof.estimate.process.outside import Outside
from gpumemprof.estimate.process.own_ends import watch_own_ends
from gpumemprof.estimate.process.program_lines import innermost_line, main_line
from gpumemprof.estimate.process.request import Request
from gpumemprof.estimate.process.simulated_card import SimulatedCard
from gpumemprof.estimate.ranks.world import World
from gpumemprof.recorder.run_closing import print_message

__all__ = ["Estimation", "begin"]


class Estimation:
    """One predicted program, in its own process."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._outside = Outside()
        self._notes = Notes(sent=self._outside.sent, started=self._outside.started)
        self._card = SimulatedCard(
            find_card(request.card),
            request.limit_bytes,
            request.assumed,
            None if request.world is None else World(**request.world),
            request.has_scratch,
        )
        self._time: TimeLimit | None = None
        self._steps: StepLimit | None = None
        self._has_started = threading.Event()
        self._left_at = ""
        self.device = self._card.device
        self.hidden_files = self._card.hidden_files

    def start(self) -> None:
        """Before the program's first line."""
        watch_crashes(self._request.notes_path)
        watch_replacement(self._refuse)
        self._outside.watch()
        watch_own_ends(self._on_own_exit, self._on_end_at_once)
        seconds = self._request.seconds
        if seconds is not None:
            self._time = TimeLimit(seconds, self._on_time, self._on_wait)
            self._time.start()

    def _on_own_exit(self, line: str) -> None:
        self._left_at = line

    def _on_end_at_once(self, line: str) -> None:
        """Nothing runs after this, so the notes are written now."""
        if not self._notes.ended:
            replace(self._notes, ended="exit", line=line).write(self._request.notes_path)

    def settings(self) -> str:
        """The allocator's settings."""
        return self._card.settings()

    def begin(self) -> dict[str, str]:
        """Torch is imported."""
        try:
            found = self._card.begin()
            self._has_started.set()
        except Error as error:
            self._refuse(str(error))
            raise
        except Exception as error:
            release = getattr(sys.modules.get("torch"), "__version__", "")
            self._refuse(
                f"estimate does not work with this torch {release} ({_described(error)}); try "
                "another release, or report this with that line"
            )
            raise
        most = sys.maxsize if self._request.steps is None else self._request.steps
        self._steps = StepLimit(most, self._on_step, self._on_last_step)
        self._steps.start()
        return found

    def closing(self) -> None:
        """The program has ended: its time does not count any more."""
        if self._time is not None:
            self._time.cancel()
        self._card.closing()

    def end(self) -> dict[str, str]:
        """The program has ended, and the recording is about to be closed."""
        self._notes.steps = 0 if self._steps is None else self._steps.steps
        if not self._notes.ended:
            self._note_exception(getattr(sys, "last_value", None))
        if sentence := self._card.failure():
            self._notes.problem, self._notes.is_prediction_refused = sentence, True
        self._notes.write(self._request.notes_path)
        return self._card.end(self._notes.ended)

    def _refuse(self, sentence: str) -> None:
        self._notes = Notes("exception", problem=sentence, is_prediction_refused=True)
        self._notes.write(self._request.notes_path)
        os._exit(_REFUSED_CODE)

    def _on_step(self, step: int) -> None:
        if self._request.shows_progress and self._time is not None:
            most = self._request.steps
            of = "" if most is None else f" of {most}"
            print_message(f"step {step}{of}, {self._time.passed_seconds:.0f} s")

    def _on_last_step(self) -> None:
        self._notes.ended = "steps"

    def _on_wait(self) -> None:
        """Some time has passed."""
        if self._request.shows_progress and self._time is not None:
            at = f", at {line}" if (line := main_line()) else ""
            print_message(f"{self._time.passed_seconds:.0f} s of {self._request.seconds:.0f} s{at}")

    def _on_time(self) -> None:
        # Python itself, torch and the engine are not ended halfway through their start.
        while not main_line() or ("torch" in sys.modules and not self._has_started.is_set()):
            time.sleep(_SECONDS_BETWEEN_LOOKS)
        self._notes.ended = LIMIT_REACHED
        self._notes.line = main_line()
        end_main_thread()

    def _note_exception(self, error: BaseException | None) -> None:
        if error is None:
            self._notes.ended = "exit"
            self._notes.line = self._left_at
        elif type(error).__name__ == "OutOfMemoryError":
            self._notes.ended = OUT_OF_MEMORY
        else:
            self._notes.ended = "exception"
            self._notes.problem = self._explained(error)
            if self._notes.problem:
                self._notes.is_prediction_refused = True
                return
            where = _user_line(error.__traceback__)
            what = _described(error)
            self._notes.problem = f"{where}: {what}" if where else what

    @staticmethod
    def _explained(error: BaseException) -> str:
        """For a program that prints its exceptions itself."""
        if "torch" not in sys.modules:
            return ""
        from gpumemprof.estimate.engine.failures import explained

        return explained(error, error.__traceback__)


_REFUSED_CODE = 3
_SECONDS_BETWEEN_LOOKS = 0.05


def _described(error: BaseException) -> str:
    lines = str(error).splitlines()
    name = type(error).__name__
    return f"{name}: {lines[0]}" if lines else name


def _user_line(trace: TracebackType | None) -> str:
    """The innermost line of the program itself."""
    return innermost_line(traceback.walk_tb(trace))


def begin(text: str) -> Estimation:
    """Start as the request says."""
    estimation = Estimation(Request.read(text))
    estimation.start()
    return estimation
