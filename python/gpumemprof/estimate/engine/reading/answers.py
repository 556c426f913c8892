"""What the program reads from tensors: numbers, lists and arrays, known or assumed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Callable

import torch
from torch._subclasses.fake_tensor import FakeTensor

from gpumemprof.estimate.engine.assumptions import Assumptions
from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.engine.fake_mode import outside_modes
from gpumemprof.estimate.engine.reading.readings import Reading, Readings
from gpumemprof.estimate.engine.user_lines import Line, current_line
from gpumemprof.estimate.engine.values import (
    is_assumed,
    is_drawn,
    is_usual,
    set_known,
    wanted_value,
)

__all__ = ["Answers"]


class Answers:
    """Answers reads; what is not known is assumed, stated, and may be set by the user."""

    def __init__(self, assumptions: Assumptions, chosen: dict[str, float] | None = None) -> None:
        """`chosen` has the user's own answers, by "file:line"."""
        self._assumptions = assumptions
        self._chosen = chosen or {}
        self._readings = Readings(lambda: self.device)
        self.device: Device | None = None
        """The card whose memory depends on what is read."""
        self.on_doubt: Callable[[torch.Tensor], None] = lambda tensor: None
        """Called with tensors that live on only if what was assumed is true."""

    def _doubt(self, tensor: Any) -> None:
        if isinstance(tensor, torch.Tensor):
            self.on_doubt(tensor)

    def doubt_first_scaled_step(self, state: Iterable[torch.Tensor]) -> None:
        """An optimizer made its state in a step that a GPU skips if gradients are not finite."""
        self._assumptions.add(
            "behaviour",
            "scaled gradients were taken to be finite; while they are not, a GPU skips steps and "
            "has no optimizer state",
        )
        for tensor in state:
            self._doubt(tensor)

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
        is_random = is_drawn(tensor)
        known = wanted_value(tensor)
        if is_random and tensor.dtype.is_floating_point:
            known = None  # A loop may wait for a small one.
        if known is not None and not is_random and not is_assumed(tensor):
            return _item(known)
        line = current_line()
        chosen = self.chosen_at(line)
        if chosen is not None:
            return _as_type(chosen, tensor.dtype)
        if known is None:
            return self._assumed_number(tensor, line)
        answer = _item(known)
        if "_was_read" in tensor.__dict__:
            return answer
        reading = Reading()
        self._readings.on_round(reading)
        if is_usual(tensor):
            answer = self._readings.usual(answer, reading)
        else:
            answer = self._readings.assumed(answer, reading)
        text = f"a tensor was read as {answer}"
        if isinstance(answer, float):
            text = "a floating-point value was computed from assumed ones"
        self._assumptions.add("value", text, line)
        return answer

    def _assumed_number(self, tensor: torch.Tensor, line: Line) -> Any:
        dtype = tensor.dtype
        reading = Reading()
        self._readings.on_round(reading)
        if dtype == torch.bool:
            answer: Any = self._readings.condition(tensor, reading)
            answer = answer or line.text.startswith("assert ")
            self._assumptions.add("value", f"a condition was taken to be {answer}", line)
        elif dtype.is_floating_point or dtype.is_complex:
            text = "a floating-point value was taken to be 1/2, 1/3, 1/4 and so on"
            if reading.place.is_in_while:
                text = "a floating-point value was taken to halve in each round of a loop"
            self._assumptions.add("value", text, line)
            answer = _as_type(self._readings.number(tensor, reading), dtype)
        else:
            answer = 0
            self._assumptions.add("value", "an integer was taken to be 0", line)
        with outside_modes():  # The same tensor has the same value when it is read again.
            value = torch.full(tensor.shape, answer, dtype=dtype)
        set_known(tensor, value, assumed=True)
        tensor.__dict__["_was_read"] = True
        return _item(value)

    def equal(self, left: torch.Tensor, right: torch.Tensor) -> bool:
        if left.shape != right.shape:
            return False
        one, other = wanted_value(left), wanted_value(right)
        if one is not None and other is not None:
            with outside_modes():
                return bool(torch.equal(one, other))
        self._assumptions.add("value", "two tensors were taken to be equal")
        return True

    def values(self, tensor: torch.Tensor) -> torch.Tensor:
        """A real tensor of the same shape, with the known values or else zeros."""
        known = wanted_value(tensor)
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
