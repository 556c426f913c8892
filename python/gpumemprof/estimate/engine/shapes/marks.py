"""Tensors of zeros and ones: which part of the values are ones, though nobody knows which ones.

Pruning masks begin as ones; the places where they become zero depend on weights, but how many do is
known. A mask that was only ever narrowed is contained in what it was before, so that the product of
both is the mask itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Callable

import torch
from torch._subclasses.fake_tensor import FakeTensor

from gpumemprof.estimate.engine.fake_mode import outside_modes
from gpumemprof.estimate.engine.operation import Operation
from gpumemprof.estimate.engine.shapes.shares import Share, share_of

__all__ = ["NOTED_OF_UNKNOWN", "follow_marks", "note_selected"]

BY_MARKS = "as many as were marked"
_keys = itertools.count()


class Marks:
    """Shared by a tensor and its views: who writes one of them writes all.

    `key` stands for the contents and is shared by copies; `within` has the keys of masks that have
    a one wherever this one has.
    """

    __slots__ = ("count", "key", "part", "within")

    def __init__(self, part: float | None, count: int, key: int, within: frozenset[int]) -> None:
        self.part = part
        self.count = count
        self.key = key
        self.within = within

    def copy(self, count: int) -> Marks:
        return Marks(self.part, count, self.key, self.within)

    def rewrite(self, part: float | None, within: frozenset[int]) -> None:
        self.part = None if part is None else min(1.0, max(0.0, part))
        self.key = next(_keys)
        self.within = within


def _marks(tensor: Any) -> Marks | None:
    """None also where they were lost."""
    if not isinstance(tensor, FakeTensor):
        return None
    found: Marks | None = tensor.__dict__.get("_marks")
    return found if found is not None and found.part is not None else None


def _new(part: float, count: int, within: frozenset[int] = frozenset()) -> Marks:
    return Marks(part, count, next(_keys), within)


def follow_marks(
    op: Operation, args: Sequence[Any], kwargs: Mapping[str, Any], outputs: Any
) -> None:
    """An operation has run: note what is known of its results, and of what it wrote."""
    if op.writes:
        _follow_write(op, args, kwargs)
        return
    if op.returns_view and args and isinstance(args[0], FakeTensor):
        marks = args[0].__dict__.get("_marks")
        if marks is not None:
            for each in outputs if isinstance(outputs, (tuple, list)) else (outputs,):
                if isinstance(each, FakeTensor):
                    each.__dict__["_marks"] = marks
        return
    note = _NOTES.get(op.name)
    if note is not None:
        note(args, kwargs, outputs)


def _written(op: Operation, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[Any]:
    for index, name in op.writes:
        value = args[index] if index < len(args) else kwargs.get(name)
        yield from value if isinstance(value, (tuple, list)) else (value,)


def _follow_write(op: Operation, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    for each in _written(op, args, kwargs):
        marks = each.__dict__.get("_marks") if isinstance(each, FakeTensor) else None
        if marks is None:
            continue
        write = _WRITES.get(op.name)
        if marks.part is None or write is None or each is not args[0]:
            marks.rewrite(None, frozenset())
        else:
            write(marks, args, kwargs)


# What operations make


def _constant(part: float) -> Callable[..., None]:
    def note(args: Sequence[Any], kwargs: Mapping[str, Any], output: Any) -> None:
        output.__dict__["_marks"] = _new(part, output.numel())

    return note


def _filled(args: Sequence[Any], kwargs: Mapping[str, Any], output: Any) -> None:
    if len(args) > 1 and args[1] in (0, 1):
        output.__dict__["_marks"] = _new(float(args[1]), output.numel())


def _copied(args: Sequence[Any], kwargs: Mapping[str, Any], output: Any) -> None:
    marks = _marks(args[0])
    if marks is not None and output.dtype != torch.bool:
        output.__dict__["_marks"] = marks.copy(output.numel())
    elif marks is not None:
        _note_share(output, marks, marks.part)
    elif isinstance(args[0], FakeTensor) and args[0].dtype == torch.bool != output.dtype:
        share = share_of(args[0])
        if share is not None:
            output.__dict__["_marks"] = _new(share.part, output.numel())


def _joined(args: Sequence[Any], kwargs: Mapping[str, Any], output: Any) -> None:
    found = [_marks(each) for each in args[0]]
    if not found or not output.numel():
        return
    ones = 0.0
    within: set[int] = set()
    for each, marks in zip(args[0], found):
        if marks is None or marks.part is None:
            return
        ones += marks.part * each.numel()
        within |= {marks.key, *marks.within}
    output.__dict__["_marks"] = _new(ones / output.numel(), output.numel(), frozenset(within))


def _product(one: Marks, other: Marks) -> tuple[float, frozenset[int]]:
    assert one.part is not None and other.part is not None
    within = one.within | other.within | {one.key, other.key}
    if one.key == other.key or one.key in other.within:
        return other.part, within
    if other.key in one.within:
        return one.part, within
    return one.part * other.part, within


def _multiplied(args: Sequence[Any], kwargs: Mapping[str, Any], output: Any) -> None:
    one, other = _marks(args[0]), _marks(args[1])
    if one is not None and other is not None:
        part, within = _product(one, other)
        output.__dict__["_marks"] = _new(part, output.numel(), within)


def _summed(args: Sequence[Any], kwargs: Mapping[str, Any], output: Any) -> None:
    """A sum is zero only if no summand is one."""
    marks = _marks(args[0])
    if marks is not None and marks.part is not None and output.numel() > 1:
        summands = args[0].numel() // output.numel()
        output.__dict__["_part_of_sums"] = 1 - (1 - marks.part) ** summands


def _compared(number: int, is_one: bool) -> Callable[..., None]:
    """With `number`; where it holds, values are one or zero."""

    def note(args: Sequence[Any], kwargs: Mapping[str, Any], output: Any) -> None:
        if args[1] != number if isinstance(args[1], (int, float)) else True:
            return
        marks = _marks(args[0])
        if marks is not None and marks.part is not None:
            part = marks.part if is_one else 1 - marks.part
            _note_share(output, marks if is_one else None, part)
        elif number == 0 and isinstance(args[0], FakeTensor):
            part_of_sums = args[0].__dict__.get("_part_of_sums")
            if part_of_sums is not None:
                _note_share(output, None, part_of_sums if is_one else 1 - part_of_sums)

    return note


def _equal(is_equal: bool) -> Callable[..., None]:
    with_one, with_zero = _compared(1, is_equal), _compared(0, not is_equal)

    def note(args: Sequence[Any], kwargs: Mapping[str, Any], output: Any) -> None:
        with_one(args, kwargs, output)
        with_zero(args, kwargs, output)

    return note


def _note_share(output: FakeTensor, marks: Marks | None, part: float | None) -> None:
    if part is None or output.numel() <= 1 or "_known_value" in output.__dict__:
        return
    output.__dict__["_hint"] = Share(part, BY_MARKS)
    if marks is not None:
        output.__dict__["_selects"] = (marks.key, part)


def _distinct(place: int | None) -> Callable[..., None]:
    """Of the results, these indices differ from each other."""

    def note(args: Sequence[Any], kwargs: Mapping[str, Any], outputs: Any) -> None:
        found = outputs if place is None else outputs[place]
        if isinstance(found, FakeTensor) and found.dim() == 1:
            found.__dict__["_is_distinct"] = True

    return note


_NOTES: dict[str, Callable[..., None]] = {
    "ones": _constant(1.0),
    "ones_like": _constant(1.0),
    "new_ones": _constant(1.0),
    "zeros": _constant(0.0),
    "zeros_like": _constant(0.0),
    "new_zeros": _constant(0.0),
    "full": _filled,
    "full_like": _filled,
    "clone": _copied,
    "_to_copy": _copied,
    "cat": _joined,
    "mul": _multiplied,
    "sum": _summed,
    "eq": _equal(True),
    "ne": _equal(False),
    "gt": _compared(0, True),
    "topk": _distinct(1),
    "sort": _distinct(1),
    "argsort": _distinct(None),
    "randperm": _distinct(None),
}

# Of whatever values: what is made of constants, and of indices.
NOTED_OF_UNKNOWN = frozenset(_NOTES) - {"clone", "_to_copy", "cat", "mul", "sum", "eq", "ne", "gt"}


# What operations write


def _fill(marks: Marks, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    value = _part_of(args[1]) if len(args) > 1 else 0.0
    _overwrite(marks, args[0].numel() / max(1, marks.count), value)


def _overwrite(marks: Marks, share: float, part: float | None) -> None:
    """Values of one in `share` of all places, no matter which, are replaced."""
    if part is None or marks.part is None:
        marks.rewrite(None, frozenset())
        return
    within = marks.within | {marks.key} if part == 0 else frozenset()
    marks.rewrite(marks.part + share * (part - marks.part), within)


def _copy_into(marks: Marks, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    source = _marks(args[1])
    if source is not None and args[0].numel() == marks.count:
        marks.part, marks.key, marks.within = source.part, source.key, source.within
    else:
        _overwrite(marks, args[0].numel() / max(1, marks.count), _part_of(args[1]))


def _multiply_into(marks: Marks, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    other = _marks(args[1])
    if other is None or args[0].numel() != marks.count:
        marks.rewrite(None, frozenset())
    else:
        marks.rewrite(*_product(marks, other))


def _part_of(values: Any) -> float | None:
    """Which part of what is written is one; None if that is unknown."""
    if isinstance(values, (bool, int, float)):
        return float(values) if values in (0, 1) else None
    marks = _marks(values)
    if marks is not None:
        return marks.part
    if isinstance(values, FakeTensor):
        values = values.__dict__.get("_known_value", values.constant)
    if not isinstance(values, torch.Tensor) or values.numel() != 1 or values.is_complex():
        return None
    with outside_modes():
        return _part_of(float(values.item()))


def _put(marks: Marks, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """`mask[indices] = values`, by one tensor of indices or one condition."""
    target, indices, values = args[:3]
    used = [(dim, each) for dim, each in enumerate(indices) if each is not None]
    part = _part_of(values)
    accumulates = kwargs.get("accumulate", args[3] if len(args) > 3 else False)
    if len(used) != 1 or part is None or accumulates or marks.part is None:
        marks.rewrite(None, frozenset())
        return
    dim, index = used[0]
    whole = target.numel() / max(1, marks.count)
    if index.dtype in (torch.bool, torch.uint8):
        share = _share_of_places(index)
        if share is None:
            marks.rewrite(None, frozenset())
            return
        before = _part_selected(marks, index)
        narrows = part == 0 or before == 1
        within = marks.within | {marks.key} if narrows else frozenset()
        marks.rewrite(marks.part + whole * share * (part - before), within)
        return
    places = _distinct_places(index)
    share = None if places is None else whole * places / max(1, target.shape[dim])
    if share is None:
        marks.rewrite(None, frozenset())
    else:
        _overwrite(marks, share, part)


def _share_of_places(condition: FakeTensor) -> float | None:
    known = condition.__dict__.get("_known_value")
    if known is not None and known.numel():
        with outside_modes():
            return float(torch.count_nonzero(known)) / int(known.numel())
    found: Share | None = share_of(condition)
    return None if found is None else found.part


def _distinct_places(index: FakeTensor) -> int | None:
    known = index.__dict__.get("_known_value")
    if known is not None:
        with outside_modes():
            return len(torch.unique(known))
    return int(index.numel()) if "_is_distinct" in index.__dict__ else None


def _part_selected(marks: Marks, condition: FakeTensor) -> float:
    """Which part of the values where a condition holds is one."""
    assert marks.part is not None
    key: int | None
    part: float
    key, part = condition.__dict__.get("_selects", (None, 1.0))
    if key == marks.key:
        return 1.0
    if key in marks.within and part > 0:
        return min(1.0, marks.part / part)
    return marks.part


def note_selected(tensor: Any, indices: Sequence[Any], found: Any) -> None:
    """`tensor[condition]`: what is known of the values that are selected."""
    marks = _marks(tensor)
    used = [each for each in indices if each is not None]
    if marks is None or len(used) != 1 or not isinstance(found, FakeTensor):
        return
    if isinstance(used[0], FakeTensor):
        found.__dict__["_marks"] = _new(_part_selected(marks, used[0]), found.numel())


_WRITES: dict[str, Callable[..., None]] = {
    "fill_": _fill,
    "zero_": _fill,
    "copy_": _copy_into,
    "mul_": _multiply_into,
    "index_put_": _put,
    "_index_put_impl_": _put,
}
