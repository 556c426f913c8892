"""What an unknown number or condition is taken to be where the program reads it.

A number falls with every new one that a line reads: 1/2, 1/3, 1/4 and so on, so that a loss gets
better. In a `while` loop it halves, so that a loop which waits for a small value ends. Conditions
are answered as if such a number was compared. A check that would leave something out or end it, as
`if kl > limit: break`, does not hold, unless a `while` loop needs it to end.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import linecache
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from types import FrameType
from typing import Any, Callable

import torch

from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.engine.reading.loops import Place, place_of
from gpumemprof.estimate.engine.shapes.shares import Bounds, Comparison, hint_of
from gpumemprof.estimate.engine.user_lines import (
    belongs_to_library,
    current_line,
    is_passed_through,
)

__all__ = ["Reading", "Readings", "usual_outcomes"]

_SMALLEST = 1e-30
_MOST_TOTAL = 100_000
_ROUNDS = 10  # of a loop that waits for a condition on unknown values
_MOST_ROUNDS = 256  # of one that waits for values that were assumed, such as the end of a text

# Lines of libraries whose outcome decides how much memory they take, with what usually happens: in
# torch.optim.LBFGS, each step is kept in the history, and its line search accepts the first one.
# `usual_outcomes` says otherwise for a while.
_USUAL_OUTCOMES = {
    "if ys > 1e-10:": True,
    "if gtd > -tolerance_change:": False,
    "if f_new > (f + c1 * t * gtd) or (ls_iter > 1 and f_new >= f_prev):": False,
    "if abs(gtd_new) <= -c2 * gtd:": True,
    "if gtd_new >= 0:": False,
    "if opt_cond:": False,
    "if d.mul(t).abs().max() <= tolerance_change:": False,
}
# By the name that a value is given: metrics rise, and divergences stay small.
_RISES = re.compile(r"^\w*(acc|auc|iou|dice|psnr|reward|score)\w*\s*\+?=", re.IGNORECASE)
_IS_SMALL = re.compile(r"^\w*kl\w*\s*\+?=|[\"']\w*kl\w*[\"']", re.IGNORECASE)


@contextlib.contextmanager
def usual_outcomes(outcomes: Mapping[str, bool]) -> Iterator[None]:
    """Within, lines with these texts have these outcomes."""
    before = {text: _USUAL_OUTCOMES[text] for text in outcomes}
    _USUAL_OUTCOMES.update(outcomes)
    try:
        yield
    finally:
        _USUAL_OUTCOMES.update(before)


def _locals(frame: FrameType, names: Sequence[str]) -> list[Any]:
    """Values of local variables; None for one that is not there."""
    found = frame.f_locals
    values = [found.get(name) for name in names]
    if sys.version_info < (3, 13) and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        found.clear()  # The frame keeps this copy, and the tensors in it would live on.
    return values


class Reading:
    """One read, at the line that asks."""

    def __init__(self) -> None:
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and is_passed_through(frame.f_code.co_filename):
            frame = frame.f_back
        self.frame = frame
        self.file = frame.f_code.co_filename if frame else ""
        self.number = frame.f_lineno if frame else 0
        is_library = not self.file or belongs_to_library(self.file)
        self.place = Place() if is_library else place_of(self.file, self.number)
        self.key = current_line()[:2] if is_library else (self.file, self.number)

    @property
    def text(self) -> str:
        return linecache.getline(self.file, self.number).strip()

    def compared_with(self) -> Any:
        """The value that the program compares with there, if it is a number; else None."""
        if not self.place.compared_with or self.frame is None:
            return None
        first, *rest = self.place.compared_with.split(".")
        try:
            found: Any = ast.literal_eval(self.place.compared_with)
        except ValueError:
            found = self.frame.f_globals.get(first, _locals(self.frame, (first,))[0])
            for name in rest:
                found = getattr(found, name, None)
        return found if isinstance(found, (int, float)) else None


class Readings:
    """Counts the reads of each line."""

    def __init__(self, device: Callable[[], Device | None]) -> None:
        """`device` is asked for the card whose memory grows with the rounds of a loop."""
        self._device = device
        # By line: the call of its function, and the births before its last two reads.
        self._rounds: dict[tuple[str, int], tuple[int, list[int]]] = {}
        self._counts: Counter[tuple[str, int]] = Counter()
        self._total = 0

    def number(self, tensor: torch.Tensor, reading: Reading) -> float:
        value = self._next(reading)
        text = reading.text
        if _RISES.search(text):
            value = 1 - value
        elif _IS_SMALL.search(text):
            value /= 1000
        hint = hint_of(tensor)
        return hint.nearest(value) if isinstance(hint, Bounds) else value

    def condition(self, tensor: torch.Tensor, reading: Reading) -> bool:
        """An unknown condition."""
        text = reading.text
        if text.startswith("assert "):
            return True
        if text in _USUAL_OUTCOMES:
            return _USUAL_OUTCOMES[text]
        hint, place = hint_of(tensor), reading.place
        if not isinstance(hint, Comparison):
            return self.usual(False, reading)
        if hint.number is not None and place.is_check and not place.is_in_while:
            return False
        holds = hint.holds_for(self._next(reading))
        if place.may_end_loop and holds == (not place.is_loop_test):
            del self._counts[reading.key]  # The loop ends; the next one begins anew.
        return holds

    def usual(self, answer: bool, reading: Reading) -> bool:
        """A condition on unknown values, as it usually is, except where a loop waits for it."""
        if not reading.place.may_end_loop:
            return answer
        return self._ends_now(reading, _ROUNDS) == (not reading.place.is_loop_test)

    def assumed(self, answer: Any, reading: Reading) -> Any:
        """A number or condition that follows from assumed values: a loop must not wait forever."""
        if not reading.place.may_end_loop or not self._ends_now(reading, _MOST_ROUNDS):
            return answer
        if isinstance(answer, bool):
            return not reading.place.is_loop_test
        other = reading.compared_with()
        return type(answer)(0 if other is None else other)

    def on_round(self, reading: Reading) -> None:
        """A value that nobody knows was read where it may end a loop.

        What a round leaves behind beyond the next one is there once for each, and their number is
        not known: a loop that waits may make no other round or twice as many; one that counts may
        end before.
        """
        device, place = self._device(), reading.place
        if device is None or not (place.is_loop_test or place.is_in_while or place.is_check):
            return
        call = id(reading.frame)
        births = self._rounds.get(reading.key, (0, []))
        if births[0] != call:
            births = (call, [])
            if place.is_in_while:
                del self._counts[reading.key]  # The function was called again.
        moments = births[1]
        if len(moments) == 2:
            waits = place.is_loop_test or place.is_in_while
            device.doubt_born(moments[0], moments[1], "guess" if waits else "absent")
        self._rounds[reading.key] = (call, [*moments[-1:], device.births_so_far])

    def _next(self, reading: Reading) -> float:
        self._counts[reading.key] += 1
        count = self._counts[reading.key]
        if reading.place.is_in_while or reading.place.is_loop_test:
            return float(max(0.5**count, _SMALLEST))
        # Of two lines, what is read later is a little smaller.
        self._total += 1
        return (1.0 - 1e-6 * min(self._total, _MOST_TOTAL)) / (1 + count)

    def _ends_now(self, reading: Reading, rounds: int) -> bool:
        self._counts[reading.key] += 1
        return self._counts[reading.key] % rounds == 0
