"""The true values of small tensors, so that the program takes the branches it would really take.

A fake tensor has no data. Where all inputs of an operation are known and its results are small,
the operation is also computed for real on the CPU, and the result kept with the fake tensor. Where
an input is unknown, a few operations have results that can be assumed: what a router or a sampler
picks is spread evenly, all values are finite.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from gpumemprof.estimate.engine import drafts
from gpumemprof.estimate.engine.fake_mode import without_fake_mode
from gpumemprof.estimate.engine.operation import Operation
from gpumemprof.estimate.engine.random_draws import RandomDraws, is_random
from gpumemprof.estimate.engine.recipes.recipe import Recipes, recipe_of
from gpumemprof.estimate.engine.shapes.assumed import ASSUMPTIONS
from gpumemprof.estimate.engine.shapes.blank import are_blank, passes_on
from gpumemprof.estimate.engine.shapes.marks import follow_marks
from gpumemprof.estimate.engine.shapes.shares import note_hints, share_of
from gpumemprof.estimate.engine.value_limits import limits

__all__ = ["Values", "is_assumed", "is_drawn", "is_usual", "known_value", "wanted_value"]

_EXACT_TYPES = frozenset(
    (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool)
)
_CPU = torch.device("cpu")
# Elements: small integers and conditions, by which programs decide, are computed at once.
_CHEAP = 1 << 22
# Of random conditions, what is expected is better than what one draw counts.
_COUNTS = frozenset(("sum", "count_nonzero"))
_TRACING = torch._C._TorchDispatchModeKey.PROXY


def known_value(tensor: torch.Tensor) -> torch.Tensor | None:
    """A real tensor with its values, on the CPU, or None."""
    if not isinstance(tensor, FakeTensor):
        return tensor
    value = tensor.__dict__.get("_known_value")
    if value is None:
        return tensor.constant
    # `tensor.data = other` exchanges the tensor behind the attributes.
    return value if value.shape == tensor.shape and value.dtype == tensor.dtype else None


def wanted_value(tensor: torch.Tensor) -> torch.Tensor | None:
    """The same where much depends on it: values of large tensors are computed now, if possible."""
    known = known_value(tensor)
    if known is None and (recipe := recipe_of(tensor)) is not None:
        return recipe.value()
    return known


def is_assumed(tensor: torch.Tensor) -> bool:
    if "_assumed" in tensor.__dict__:
        return True
    recipe = recipe_of(tensor)
    return recipe is not None and recipe.is_assumed


def is_drawn(tensor: torch.Tensor) -> bool:
    """Whether its values follow from random numbers, which are others on a GPU."""
    if known_value(tensor) is not None:
        return False
    recipe = recipe_of(tensor)
    return recipe is not None and recipe.is_random


def is_usual(tensor: torch.Tensor) -> bool:
    """Whether a condition on unknown values was taken to be as it usually is."""
    return "_is_usual" in tensor.__dict__


def _fakes(value: Any) -> Iterator[FakeTensor]:
    if isinstance(value, FakeTensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for each in value:
            yield from _fakes(each)


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for each in value:
            yield from _tensors(each)


def _is_on_device(value: Any) -> bool:
    return any(each.fake_device.type != "cpu" for each in _fakes(value))


def _is_small(tensor: FakeTensor) -> bool:
    return _is_small_anywhere(tensor) or (
        tensor.fake_device.type == "cpu" and int(tensor.numel()) <= limits.floats_on_cpu
    )


def _is_small_anywhere(tensor: FakeTensor) -> bool:
    """Also where its values are not the program's data."""
    dtype = tensor.dtype
    count = int(tensor.numel())
    if not dtype.is_floating_point and not dtype.is_complex:
        return count <= limits.integers
    return count <= limits.floats


class _UnknownValueError(Exception):
    """An input of the operation has no known value."""


class Values:
    """Keeps the known values; one object serves all threads."""

    def __init__(self) -> None:
        self._draws = RandomDraws()
        self._recipes = Recipes()

    def after(
        self, op: Operation, args: Sequence[Any], kwargs: Mapping[str, Any], outputs: Any
    ) -> None:
        """Compute the results of an operation for real, if that is cheap and possible."""
        if not self._draws.pending and passes_on(op) and are_blank(args, kwargs):
            return
        self._find(op, args, kwargs, outputs)
        follow_marks(op, args, kwargs, outputs)

    def _find(
        self, op: Operation, args: Sequence[Any], kwargs: Mapping[str, Any], outputs: Any
    ) -> None:
        if self._draws.pending and _is_on_device(outputs):
            self._draws.draw()
        if torch._C._get_dispatch_mode(_TRACING) is not None:
            return
        if op.writes:
            self._after_writing(op, args, kwargs, outputs)
            self._note_drafts(op, args, kwargs)
            return
        if isinstance(outputs, FakeTensor):
            if op.is_empty_factory:
                if outputs.dtype in _EXACT_TYPES and _is_small(outputs):
                    drafts.start(outputs)
                return
            if op.returns_view and args and "_draft" in getattr(args[0], "__dict__", ()):
                drafts.follow_view(op, args, kwargs, outputs)
                return
            if not _is_small(outputs):
                self._follow(op, args, kwargs, [outputs])
                self._draws.note(op, outputs, kwargs.get("generator"))
                return
        elif not isinstance(outputs, (tuple, list)):
            return
        elif not all(map(_is_small, _fakes(outputs))):
            self._follow(op, args, kwargs, list(_fakes(outputs)))
            return
        self._compute(op, args, kwargs, list(_fakes(outputs)))

    def _after_writing(
        self, op: Operation, args: Sequence[Any], kwargs: Mapping[str, Any], outputs: Any
    ) -> None:
        written: list[FakeTensor] = []
        for index, name in op.writes:
            for each in _tensors(args[index] if index < len(args) else kwargs.get(name)):
                if isinstance(each, FakeTensor):
                    written.append(each)
                else:  # A real tensor, as numpy's: it gets its new values if they are known.
                    self._compute(op, args, kwargs, [])
                    return
        recipe = None
        if len(written) == 1:
            recipe = self._recipes.before_write(op, args, kwargs, written[0])
        for each in written:
            each.__dict__.pop("_hint", None)
            self._recipes.after_write(each, recipe)
        self._write_values(op, args, kwargs, outputs, written)

    def _write_values(
        self,
        op: Operation,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        outputs: Any,
        written: Sequence[FakeTensor],
    ) -> None:
        if len(written) == 1 and not _is_small(written[0]):
            note_hints(op.name, args, written[0])
        if not any("_known_value" in each.__dict__ for each in written) and (
            not written
            or not _overwrites(op)
            or not all(_is_small_anywhere(each) for each in written)
        ):
            if written:
                self._draws.note(op, written[0], kwargs.get("generator"))
            return
        targets = [*_fakes(outputs), *written]
        before = [each.__dict__.get("_known_value") for each in written]
        if _overwrites(op):
            for each in written:
                if "_known_value" not in each.__dict__ and _is_small_anywhere(each):
                    with without_fake_mode():
                        each._known_value = torch.empty(each.shape, dtype=each.dtype, device="cpu")
        is_done = all(map(_is_small, written)) and self._compute(op, args, kwargs, targets)
        if is_done:
            return
        if op.name in _KEEPS_ITS_VALUE:
            for each, value in zip(written, before):
                if value is not None:
                    each._known_value = value
            return
        for each in targets:
            _forget_values(each)

    def _note_drafts(self, op: Operation, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        for index, name in op.writes:
            for each in _fakes(args[index] if index < len(args) else kwargs.get(name)):
                if "_draft" in each.__dict__:
                    drafts.note_written(each, known_value(each), is_assumed(each))

    def _compute(
        self,
        op: Operation,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        targets: Sequence[FakeTensor],
    ) -> bool:
        """Whether the values of the targets are now known."""
        assumed = False
        if op.name in _USES_SHAPE_ALONE:
            args = (_stand_in(args[0]), *args[1:])
        try:
            known_args, assumed = _real(args)
            known_kwargs = {}
            for name, value in kwargs.items():
                known_kwargs[name], also = _real(value)
                assumed = assumed or also
        except _UnknownValueError:
            return self._follow(op, args, kwargs, targets)
        random = self._random_numbers(op, targets) if is_random(op) else nullcontext()
        try:
            with without_fake_mode(), torch.no_grad(), random:
                results = op.func(*known_args, **known_kwargs)
        except Exception:  # A CPU kernel may be missing: the values stay unknown.
            return False
        for target, value in zip(targets, [*_tensors(results), *_written(op, known_args)]):
            if value.shape != target.shape:
                forget(target)
                continue
            target._known_value = value
            target.__dict__.pop("_was_read", None)
            if assumed:
                target._assumed = True
            else:
                target.__dict__.pop("_assumed", None)
        return True

    def _follow(
        self,
        op: Operation,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        targets: Sequence[FakeTensor],
    ) -> bool:
        """Results whose values are not computed now: whether they are known all the same."""
        recipe = None if op.writes else self._recipes.note(op, args, kwargs, targets)
        if recipe is None or (recipe.is_random and op.name in _COUNTS and share_of(args[0])):
            return self._assume(op, args, targets)
        for target in targets:
            note_hints(op.name, args, target)
        if (
            recipe.cost > _CHEAP
            or recipe.is_random
            or not all(each.dtype in _EXACT_TYPES and _is_small(each) for each in targets)
        ):
            return False
        for target in targets:
            value = wanted_value(target)
            if value is None or value.shape != target.shape:
                return self._assume(op, args, targets)
            set_known(target, value, recipe.is_assumed)
        return True

    def _random_numbers(self, op: Operation, targets: Sequence[FakeTensor]) -> Any:
        if _is_on_device(targets):
            return self._draws.of_device()
        self._draws.draw()
        return nullcontext()

    def _assume(self, op: Operation, args: Sequence[Any], targets: Sequence[FakeTensor]) -> bool:
        """Whether a value was assumed; if not, what else is known of the results is noted."""
        if not targets:
            return False
        assume = ASSUMPTIONS.get(op.name)
        if assume is None:
            note_hints(op.name, args, targets[0])
            return False
        with without_fake_mode():
            for place, target in enumerate(targets):
                if not _is_small(target):
                    note_hints(op.name, args, target)
                    continue
                value = assume(args, target, place)
                if value is None:
                    note_hints(op.name, args, target)
                else:
                    target._known_value = value
                    target._assumed = True
        return True


def forget(tensor: torch.Tensor) -> None:
    tensor.__dict__.pop("_recipe", None)
    _forget_values(tensor)


def _forget_values(tensor: torch.Tensor) -> None:
    """What was computed of it; how to compute what it is now may be known."""
    for name in ("_known_value", "_assumed", "_hint", "_was_read", "_is_usual"):
        tensor.__dict__.pop(name, None)
    if isinstance(tensor, FakeTensor):
        tensor.constant = None


def set_known(tensor: torch.Tensor, value: torch.Tensor, assumed: bool = False) -> None:
    tensor.__dict__["_known_value"] = value
    tensor.__dict__.pop("_draft", None)  # It is no longer empty.
    if assumed:
        tensor.__dict__["_assumed"] = True


# The results have the shape of the first argument, whatever its values are.
_USES_SHAPE_ALONE = frozenset(
    ("zeros_like", "ones_like", "full_like", "new_zeros", "new_ones", "new_full")
)


def _stand_in(tensor: torch.Tensor) -> torch.Tensor:
    """A real tensor of the same shape and type, of one element."""
    with without_fake_mode():
        return torch.empty((), dtype=tensor.dtype, device="cpu").expand(tensor.shape)


def _overwrites(op: Operation) -> bool:
    """Operations that write all values whatever was there."""
    return op.name in _OVERWRITING or op.has_out


_OVERWRITING = frozenset(("copy_", "fill_", "zero_", "random_", "uniform_", "normal_"))


# A gradient that cannot be computed is assumed to be finite.
_KEEPS_ITS_VALUE = ("_amp_foreach_non_finite_check_and_unscale_",)


def _written(op: Operation, args: Sequence[Any]) -> list[torch.Tensor]:
    return [each for index, _ in op.writes if index < len(args) for each in _tensors(args[index])]


def _real(value: Any) -> tuple[Any, bool]:
    """An argument with real tensors for fake ones, and whether a value in it is assumed."""
    if isinstance(value, torch.Tensor):
        if not isinstance(value, FakeTensor):
            return value, False
        known = known_value(value)
        if known is None:
            raise _UnknownValueError
        return known, "_assumed" in value.__dict__
    if isinstance(value, (tuple, list)):
        assumed = False
        found = []
        for each in value:
            real, also = _real(each)
            found.append(real)
            assumed = assumed or also
        return (tuple(found) if isinstance(value, tuple) else found), assumed
    return (_CPU if isinstance(value, torch.device) else value), False
