"""What is known about tensors without values.

Random numbers have a distribution, so that a comparison with a constant holds for a known share of
them. What a router picks among K experts equals each of them for one in K.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Callable, NamedTuple, Union

import torch
from torch._subclasses.fake_tensor import FakeTensor

from gpumemprof.estimate.engine.fake_mode import outside_modes
from gpumemprof.estimate.engine.shapes.distributions import Folded, Normal, Rectified, Uniform

__all__ = [
    "BY_CHANCE",
    "FEW_FOUND",
    "FOUND_OF_UNKNOWN",
    "Bounds",
    "Choices",
    "Comparison",
    "Share",
    "hint_of",
    "note_hints",
    "share_of",
]


class Share(NamedTuple):
    """Of a mask: `part` of its elements are true; `reason` says why, `where` which ones."""

    part: float
    reason: str
    where: str = "everywhere"  # or "first" or "last"


class Choices(NamedTuple):
    """Integers are spread evenly from low to high."""

    low: int
    high: int

    @property
    def number(self) -> int:
        return self.high - self.low + 1


class Bounds(NamedTuple):
    """All values are between these; None is open."""

    low: float | None
    high: float | None

    def nearest(self, number: float) -> float:
        """The number, or the bound that it exceeds."""
        if self.low is not None:
            number = max(number, self.low)
        return number if self.high is None else min(number, self.high)

    def scaled(self, factor: float, summand: float) -> Bounds:
        ends = [None if end is None else end * factor + summand for end in self]
        return Bounds(*(ends if factor >= 0 else reversed(ends)))

    def choices(self) -> Choices | None:
        """The integers that are possible after rounding."""
        if self.low is None or self.high is None:
            return None
        return Choices(math.floor(self.low), math.floor(self.high))


class Comparison(NamedTuple):
    """Of a condition: an unknown value was asked to be below a number, or above it."""

    is_below: bool
    number: float | None  # None: unknown, too
    bounds: Bounds | None = None

    def holds_for(self, value: float) -> bool:
        if self.number is None:
            return self.is_below  # What is computed later is taken to be smaller.
        value = value if self.bounds is None else self.bounds.nearest(value)
        return value < self.number if self.is_below else value > self.number


class Quantile(NamedTuple):
    """A number of a tensor's own, which this part of its elements are below."""

    part: float


Hint = Union[Share, Choices, Bounds, Comparison, Uniform, Normal, Folded, Rectified, Quantile]

BY_CHANCE = "as expected of random numbers"
BY_RANK = "as the limit is one of these values"
BALANCED = "if choices are spread evenly"
FEW_FOUND = "as if a quarter were not background"
FOREGROUND = 0.25


def hint_of(tensor: Any) -> Hint | None:
    found: Hint | None = None
    if isinstance(tensor, FakeTensor):
        found = tensor.__dict__.get("_hint")
    return found


def share_of(mask: torch.Tensor) -> Share | None:
    """None if nothing is known."""
    found = hint_of(mask)
    if isinstance(found, Rectified):
        return Share(1 - found.share_below(0.0), BY_CHANCE)
    return found if isinstance(found, Share) else None


def note_hints(name: str, args: Sequence[Any], output: FakeTensor) -> None:
    """Remember what is known of a result whose values are not."""
    find = _FINDERS.get(name)
    if find is not None and args:
        found = find(args, output)
        if found is not None:
            output.__dict__["_hint"] = found


Finder = Callable[[Sequence[Any], FakeTensor], "Hint | None"]


def _number(value: Any) -> float | None:
    if isinstance(value, FakeTensor):
        known = value.__dict__.get("_known_value")
        value = known if known is not None else value.constant
        if value is None or value.numel() != 1 or value.is_complex():
            return None
        with outside_modes():
            return float(value.item())
    return float(value) if isinstance(value, (int, float)) else None


def _uniform(args: Sequence[Any], output: FakeTensor) -> Uniform:
    return Uniform(0.0, 1.0)


def _uniform_in_place(args: Sequence[Any], output: FakeTensor) -> Uniform:
    low, high = args[1:3] if len(args) > 2 else (0.0, 1.0)
    return Uniform(float(low), float(high))


def _normal(args: Sequence[Any], output: FakeTensor) -> Normal:
    return Normal(0.0, 1.0)


def _normal_in_place(args: Sequence[Any], output: FakeTensor) -> Normal:
    mean, deviation = args[1:3] if len(args) > 2 else (0.0, 1.0)
    return Normal(float(mean), float(deviation))


def _comparison(is_below: bool) -> Finder:
    def find(args: Sequence[Any], output: FakeTensor) -> Share | Comparison | None:
        tensor, other = args[:2]
        hint, number = hint_of(tensor), _number(other)
        limit = hint_of(other)
        if number is not None and isinstance(hint, (Uniform, Normal, Folded, Rectified)):
            below = hint.share_below(number)
            return Share(below if is_below else 1 - below, BY_CHANCE)
        if isinstance(limit, Quantile) and output.numel() > 1:
            return Share(limit.part if is_below else 1 - limit.part, BY_RANK)
        if number is not None and isinstance(hint, Choices):
            below = min(1.0, max(0.0, (number - hint.low) / hint.number))
            return Share(below if is_below else 1 - below, BALANCED)
        if output.numel() == 1 and not _is_integer(tensor):
            if number is None and _number(tensor) is not None:  # the other way round
                return _compared(not is_below, _number(tensor), hint_of(other))
            return _compared(is_below, number, hint)
        return _background(tensor, is_below)

    return find


def _compared(is_below: bool, number: float | None, hint: Any) -> Comparison:
    return Comparison(is_below, number, hint if isinstance(hint, Bounds) else None)


def _equality(is_equal: bool) -> Finder:
    def find(args: Sequence[Any], output: FakeTensor) -> Share | None:
        hint = hint_of(args[0])
        if isinstance(hint, Choices):
            part = 1.0 / hint.number
            return Share(part if is_equal else 1 - part, BALANCED)
        return _background(args[0], _number(args[1]) == 0) if is_equal else None

    return find


def _background(tensor: Any, is_background: bool) -> Share | None:
    """Integers are numbers of classes or of matches, the lowest of which means background."""
    if not _is_integer(tensor):
        return None
    if is_background:
        return Share(1 - FOREGROUND, FEW_FOUND, "last")
    return Share(FOREGROUND, FEW_FOUND, "first")


def _is_integer(tensor: Any) -> bool:
    return (
        isinstance(tensor, FakeTensor)
        and not tensor.dtype.is_floating_point
        and not tensor.dtype.is_complex
        and tensor.dtype != torch.bool
    )


def _combined(combine: Callable[[float, float], float]) -> Finder:
    def find(args: Sequence[Any], output: FakeTensor) -> Share | None:
        one, other = hint_of(args[0]), hint_of(args[1])
        if output.dtype == torch.bool and isinstance(one, Share) and isinstance(other, Share):
            return Share(combine(one.part, other.part), one.reason)
        return None

    return find


def _negated(args: Sequence[Any], output: FakeTensor) -> Share | None:
    hint = hint_of(args[0])
    if isinstance(hint, Share) and output.dtype == torch.bool:
        where = {"first": "last", "last": "first"}.get(hint.where, hint.where)
        return Share(1 - hint.part, hint.reason, where)
    return None


def _same(args: Sequence[Any], output: FakeTensor) -> Any:
    """Views and copies know what their source knows."""
    return hint_of(args[0])


def _converted(args: Sequence[Any], output: FakeTensor) -> Any:
    """To another type; as integers, bounded values are choices."""
    hint = hint_of(args[0])
    if output.dtype == torch.bool:
        return hint if isinstance(hint, Share) else None
    if isinstance(hint, Share):
        return None
    if output.dtype.is_floating_point:
        return hint
    if isinstance(hint, Uniform):
        return Choices(int(hint.low), max(int(hint.low), math.ceil(hint.high) - 1))
    return hint.choices() if isinstance(hint, Bounds) else hint


def _rounded(args: Sequence[Any], output: FakeTensor) -> Any:
    hint = hint_of(args[0])
    return hint if isinstance(hint, (Choices, Bounds)) else None


def _clamped(args: Sequence[Any], output: FakeTensor) -> Bounds:
    low, high = (*(_number(each) for each in args[1:3]), None, None)[:2]
    return Bounds(low, high)


def _clamped_above(args: Sequence[Any], output: FakeTensor) -> Bounds:
    return Bounds(None, _number(args[1]))


def _bounded(low: float, high: float | None) -> Finder:
    return lambda args, output: Bounds(low, high)


def _wrapped(kind: Any) -> Finder:
    """abs and relu of random numbers; of others, they are not negative."""

    def find(args: Sequence[Any], output: FakeTensor) -> Any:
        hint = hint_of(args[0])
        return kind(hint) if isinstance(hint, (Uniform, Normal)) else Bounds(0.0, None)

    return find


def _middle(args: Sequence[Any], output: FakeTensor) -> Any:
    return Quantile(0.5) if output.numel() == 1 and args[0].numel() > 1 else None


def _ranked(args: Sequence[Any], output: FakeTensor) -> Any:
    if output.numel() != 1 or not args[0].numel():
        return None
    return Quantile(args[1] / args[0].numel())


def _scaled(args: Sequence[Any], output: FakeTensor) -> Any:
    hint, number = hint_of(args[0]), _number(args[1])
    if isinstance(hint, (Uniform, Normal, Bounds)) and number is not None:
        return hint.scaled(number, 0.0)
    return None


def _shifted(sign: int) -> Finder:
    def find(args: Sequence[Any], output: FakeTensor) -> Any:
        hint, number = hint_of(args[0]), _number(args[1])
        if number is None:
            return None
        if isinstance(hint, (Uniform, Normal, Bounds)):
            return hint.scaled(1.0, sign * number)
        if isinstance(hint, Choices) and number == int(number):
            return Choices(hint.low + sign * int(number), hint.high + sign * int(number))
        return None

    return find


_FINDERS: dict[str, Finder] = {
    "rand": _uniform,
    "rand_like": _uniform,
    "uniform_": _uniform_in_place,
    "randn": _normal,
    "randn_like": _normal,
    "normal_": _normal_in_place,
    "lt": _comparison(True),
    "le": _comparison(True),
    "gt": _comparison(False),
    "ge": _comparison(False),
    "eq": _equality(True),
    "ne": _equality(False),
    "bitwise_and": _combined(lambda one, other: one * other),
    "logical_and": _combined(lambda one, other: one * other),
    "bitwise_or": _combined(lambda one, other: one + other - one * other),
    "logical_or": _combined(lambda one, other: one + other - one * other),
    "bitwise_not": _negated,
    "logical_not": _negated,
    "clamp": _clamped,
    "clamp_min": _clamped,
    "clamp_max": _clamped_above,
    "abs": _wrapped(Folded),
    "relu": _wrapped(Rectified),
    "mean": _middle,
    "median": _middle,
    "kthvalue": _ranked,
    "sigmoid": _bounded(0.0, 1.0),
    "_softmax": _bounded(0.0, 1.0),
    "ceil": _rounded,
    "mul": _scaled,
    "add": _shifted(1),
    "sub": _shifted(-1),
    "floor": _rounded,
    "round": _rounded,
    "_to_copy": _converted,
}
_FROM_HINTS = (_negated, _converted, _rounded, _scaled)
_NAMES_FROM_HINTS = ("add", "sub", "bitwise_and", "bitwise_or", "logical_and", "logical_or")
FOUND_OF_UNKNOWN = frozenset(
    name
    for name, find in _FINDERS.items()
    if find not in _FROM_HINTS and name not in _NAMES_FROM_HINTS
)
"""Operations of whose results something is known whatever their arguments are."""
_FINDERS.update(
    dict.fromkeys(
        (
            "_unsafe_view",
            "alias",
            "clone",
            "detach",
            "expand",
            "permute",
            "select",
            "slice",
            "squeeze",
            "t",
            "transpose",
            "unsqueeze",
            "view",
        ),
        _same,
    )
)
