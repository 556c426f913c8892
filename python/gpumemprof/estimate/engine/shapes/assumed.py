"""What results are assumed to be where the values they are computed from are unknown."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Callable

import torch
from torch._subclasses.fake_tensor import FakeTensor

from gpumemprof.estimate.engine.shapes.shares import Choices, hint_of, note_hints, share_of
from gpumemprof.estimate.engine.user_lines import asking_line

__all__ = ["ASSUMPTIONS"]

# Indices into more than this are words of a vocabulary, where the first ones end a text.
_LARGE_RANGE = 1024
# Of the result at a place among the results
Assume = Callable[[Sequence[Any], FakeTensor, int], "torch.Tensor | None"]


def _spread(shape: torch.Size, choices: int, dtype: torch.dtype, first: int = 0) -> torch.Tensor:
    """Indices that take each choice equally often."""
    count = shape.numel()
    start = choices // 2 if choices > _LARGE_RANGE else 0
    indices = first + torch.arange(start, start + count, device="cpu") % max(1, choices)
    return indices.to(dtype).reshape(shape)


def _size_along(args: Sequence[Any], place: int, default: int | None) -> int:
    tensor = args[0]
    dim = args[place] if len(args) > place else default
    if dim is None:
        return int(tensor.numel())
    return int(tensor.shape[dim]) if tensor.dim() else 1


def _assume_picked(place: int, default: int | None) -> Assume:
    """Of the results, the integers are indices along a dimension of the first argument."""

    def assume(args: Sequence[Any], target: FakeTensor, _: int) -> torch.Tensor | None:
        if target.dtype.is_floating_point:
            return None
        return _spread(target.shape, _size_along(args, place, default), target.dtype)

    return assume


def _assume_order(args: Sequence[Any], target: FakeTensor, place: int) -> torch.Tensor | None:
    """Sorting finds its input sorted."""
    if target.dtype != torch.int64 or not target.dim() or (place == 0 and _is_sorted_in(args)):
        return None
    dim = next((each for each in args[1:] if type(each) is int), -1)
    shape = [1] * target.dim()
    shape[dim] = target.shape[dim]
    order = torch.arange(target.shape[dim], device="cpu")
    return order.reshape(shape).expand(target.shape).contiguous()


def _is_sorted_in(args: Sequence[Any]) -> bool:
    """Whether integers were sorted: then the first result has their values, not their places."""
    return not args[0].dtype.is_floating_point


def _assume_all(value: bool, is_usual: bool = False) -> Assume:
    def assume(_: Sequence[Any], target: FakeTensor, __: int) -> torch.Tensor:
        if is_usual:
            target.__dict__["_is_usual"] = True
        single = torch.full((), value, dtype=target.dtype, device="cpu")
        return single.expand(target.shape).contiguous()

    return assume


# Functions of transformers that look for a reason to go on with a beam search, and find one.
_FINDS_SOME = ("_check_early_stop_heuristic", "_beam_search_has_unfinished_sequences")


def _assume_any(args: Sequence[Any], target: FakeTensor, place: int) -> torch.Tensor | None:
    return _assume_all(asking_line().function in _FINDS_SOME, is_usual=True)(args, target, place)


def _assume_count(args: Sequence[Any], target: FakeTensor, _: int) -> torch.Tensor | None:
    """As many conditions hold as where a mask selects elements."""
    if args[0].dtype != torch.bool or target.dtype.is_floating_point:
        return None
    each = args[0].numel() // max(1, target.numel())
    share = share_of(args[0])
    if share is not None:
        each = round(each * share.part)
    return torch.full(target.shape, each, dtype=target.dtype, device="cpu")


def _assume_integers(args: Sequence[Any], target: FakeTensor, _: int) -> torch.Tensor | None:
    """Numbers that were kept between two integers, as those of levels are, are spread evenly."""
    note_hints("_to_copy", args, target)
    choices = hint_of(target)
    if (
        not isinstance(choices, Choices)
        or choices.number > _LARGE_RANGE
        or target.dtype.is_floating_point
        or target.dtype == torch.bool
    ):
        return None
    return _spread(target.shape, choices.number, target.dtype, choices.low)


def _assume_equal(is_equal: bool) -> Assume:
    """Numbers equal themselves, and an unknown one equals no other and is not infinite."""

    def assume(args: Sequence[Any], target: FakeTensor, _: int) -> torch.Tensor | None:
        one, other = args[:2]
        if not isinstance(one, torch.Tensor) or not one.dtype.is_floating_point:
            return None
        if one is not other and target.numel() > 1 and not _is_infinite(other):
            return None
        return _assume_all((one is other) == is_equal)(args, target, 0)

    return assume


def _is_infinite(value: Any) -> bool:
    return isinstance(value, float) and math.isinf(value)


ASSUMPTIONS: dict[str, Assume] = {
    "eq": _assume_equal(True),
    "ne": _assume_equal(False),
    "argmax": _assume_picked(1, None),
    "argmin": _assume_picked(1, None),
    "topk": _assume_picked(2, -1),
    "max": _assume_picked(1, None),
    "min": _assume_picked(1, None),
    "multinomial": _assume_picked(3, -1),
    "sort": _assume_order,
    "argsort": _assume_order,
    "isfinite": _assume_all(True),
    "isnan": _assume_all(False),
    "isinf": _assume_all(False),
    "all": _assume_all(True, is_usual=True),
    "any": _assume_any,
    "sum": _assume_count,
    "count_nonzero": _assume_count,
    "_is_all_true": _assume_all(True, is_usual=True),
    "_is_any_true": _assume_all(False, is_usual=True),
    "allclose": _assume_all(True, is_usual=True),
    "_to_copy": _assume_integers,
}
