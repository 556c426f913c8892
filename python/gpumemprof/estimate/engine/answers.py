"""What the program reads from tensors: numbers, lists and arrays, known or assumed."""

from __future__ import annotations

import linecache
import sys
from typing import Any, Callable

import torch
from torch._subclasses.fake_tensor import FakeTensor

from gpumemprof.estimate.engine.assumptions import Assumptions
from gpumemprof.estimate.engine.fake_mode import outside_modes
from gpumemprof.estimate.engine.shapes.shares import Bounds, hint_of
from gpumemprof.estimate.engine.user_lines import Line, asking_line, current_line
from gpumemprof.estimate.engine.values import is_assumed, known_value

__all__ = ["Answers"]

# Lines of libraries whose outcome decides how much memory they take, with what usually happens.
_USUAL_OUTCOMES = {"if ys > 1e-10:": True}  # torch.optim.LBFGS keeps the step in its history


class Answers:
    """Answers reads; what is not known is assumed, stated, and may be set by the user."""

    def __init__(self, assumptions: Assumptions, chosen: dict[str, float] | None = None) -> None:
        """`chosen` has the user's own answers, by "file:line"."""
        self._assumptions = assumptions
        self._chosen = chosen or {}

    def chosen_at(self, line: Line) -> float | None:
        """The user's answer for a line; the file may be given by its end."""
        if not self._chosen:
            return None
        for where, value in self._chosen.items():
            file, _, number = where.rpartition(":")
            if number == str(line.number) and (line.file == file or line.file.endswith("/" + file)):
                return value
        return None

    def item(self, tensor: torch.Tensor) -> Any:
        """The only number of a tensor."""
        known = known_value(tensor)
        line = current_line()
        if known is not None and not is_assumed(tensor):
            return _item(known)
        chosen = self.chosen_at(line)
        if chosen is not None:
            return _as_type(chosen, tensor.dtype)
        if known is not None:
            answer = _item(known)
            self._assumptions.add("value", f"a tensor was read as {answer}", line)
            return answer
        return self._assumed_number(tensor, line)

    def _assumed_number(self, tensor: torch.Tensor, line: Line) -> Any:
        dtype = tensor.dtype
        if dtype == torch.bool:
            answer = line.text.startswith("assert ") or _usual_outcome()
            self._assumptions.add("value", f"a condition was taken to be {answer}", line)
            return answer
        if dtype.is_floating_point or dtype.is_complex:
            # It falls slowly, so that loops which wait for a small value end, and is never 0.
            text = "a floating-point value was taken to be 1/2, 1/3, 1/4 and so on"
            number = 1.0 / (1 + self._assumptions.add("value", text, line))
            hint = hint_of(tensor)
            return _as_type(hint.nearest(number) if isinstance(hint, Bounds) else number, dtype)
        self._assumptions.add("value", "an integer was taken to be 0", line)
        return 0

    def equal(self, left: torch.Tensor, right: torch.Tensor) -> bool:
        if left.shape != right.shape:
            return False
        one, other = known_value(left), known_value(right)
        if one is not None and other is not None:
            with outside_modes():
                return bool(torch.equal(one, other))
        self._assumptions.add("value", "two tensors were taken to be equal")
        return True

    def values(self, tensor: torch.Tensor) -> torch.Tensor:
        """A real tensor of the same shape, with the known values or else zeros."""
        known = known_value(tensor)
        if known is not None:
            if is_assumed(tensor):
                self._assumptions.add("value", "the values of a tensor were assumed")
            with outside_modes():
                return known.detach()
        self._assumptions.add("value", "the values of a tensor were taken to be 0")
        with outside_modes():
            # One element for all: a large tensor must not take memory here either.
            if tensor.numel() > 1 << 22:
                return torch.zeros((), dtype=tensor.dtype).expand(tensor.shape)
            return torch.zeros(tensor.shape, dtype=tensor.dtype)

    def tolist(self, tensor: torch.Tensor) -> Any:
        if tensor.dim() == 0:
            return self.item(tensor)
        values = self.values(tensor)
        with outside_modes():
            return values.tolist()

    def tolist_method(self) -> Callable[[torch.Tensor], Any]:
        """A plain function, to be a method of tensors."""
        return lambda tensor: self.tolist(tensor)

    def numpy(self, tensor: torch.Tensor) -> Any:
        values = self.values(tensor)
        with outside_modes():
            return values.numpy()


def _item(tensor: torch.Tensor) -> Any:
    with outside_modes():
        return tensor.item() if not isinstance(tensor, FakeTensor) else 0


def _as_type(value: float, dtype: torch.dtype) -> Any:
    if dtype == torch.bool:
        return bool(value)
    if dtype.is_complex:
        return complex(value)
    return float(value) if dtype.is_floating_point else int(value)


def _usual_outcome() -> bool:
    """What usually happens at a line of torch or of a library that asks, if that is known."""
    if asking_line().text.startswith("assert "):
        return True
    frame = sys._getframe(3)
    for _ in range(6):
        text = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
        if text in _USUAL_OUTCOMES:
            return _USUAL_OUTCOMES[text]
        if frame.f_back is None:
            break
        frame = frame.f_back
    return False
