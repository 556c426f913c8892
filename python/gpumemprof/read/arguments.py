"""Checks the arguments of questions to a recording."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar, cast

from gpumemprof import _core
from gpumemprof.errors import UsageError

__all__ = ["at_least_0", "device_number", "listed", "moment", "number_range"]

_LARGEST_DEVICE = 1024
_LARGEST_EVENT = 2**32 - 2
_T = TypeVar("_T")


def listed(values: _T | Sequence[_T], kind: type[_T]) -> list[_T]:
    return [values] if isinstance(values, kind) else list(cast("Sequence[_T]", values))


def _usage(message: str) -> UsageError:
    return UsageError(message, "usage")


def device_number(device: str | int | None) -> int | None:
    if device is None:
        return None
    if isinstance(device, str):
        number = "-1" if device == "host" else device.rpartition(":")[2]
        if not number.lstrip("-").isdecimal():
            raise _usage(f"device takes a number or a name such as 'cuda:0', not {device!r}")
        device = int(number)
    if not -1 <= device <= _LARGEST_DEVICE:
        raise _usage(f"there is no device {device}")
    return device


def moment(at: str | int) -> tuple[_core._Moment, int]:
    if at == "peak":
        return "peak", 0
    if at == "end":
        return "end", 0
    if isinstance(at, int) and 0 <= at <= _LARGEST_EVENT:
        return "event", at
    if isinstance(at, str) and at.startswith("step:") and at[5:].isdecimal():
        return "step", min(int(at[5:]), _LARGEST_EVENT)
    raise _usage(f"at takes an event's number, 'step:5', 'peak' or 'end', not {at!r}")


def number_range(name: str, numbers: tuple[int, int] | None) -> tuple[int, int] | None:
    if numbers is None:
        return None
    pair = tuple(numbers) if isinstance(numbers, Sequence) else ()
    if len(pair) != 2 or not all(
        isinstance(number, int) and 0 <= number <= _LARGEST_EVENT for number in pair
    ):
        raise _usage(f"{name} takes two numbers such as (3, 5), not {numbers!r}")
    return pair[0], pair[1]


def at_least_0(top: int | None) -> int | None:
    if top is not None and top < 0:
        raise _usage(f"top takes a number that is 0 or more, not {top}")
    return top
