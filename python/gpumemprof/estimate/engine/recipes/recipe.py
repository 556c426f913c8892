"""How a large tensor would be computed from known values, in case that somebody asks.

Values of large tensors are not computed, since nobody branches on activations. But a mask that says
which atoms are near each other, or which samples of a ray hit something, is large too, and decides
how much is computed. So a tensor that follows from known values, without the weights of a model,
keeps the operations that lead to it. They run only when a size depends on its values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import torch
from torch._subclasses.fake_tensor import FakeTensor

from gpumemprof.estimate.engine.fake_mode import outside_modes
from gpumemprof.estimate.engine.operation import Operation
from gpumemprof.estimate.engine.random_draws import numbers_from
from gpumemprof.estimate.engine.recipes.operations import (
    USES_SHAPE_ALONE,
    can_be_computed,
    cost_of,
    draws_on_its_own,
)

__all__ = ["Recipe", "Recipes", "recipe_of"]

_MOST_ELEMENTS = 1 << 25  # of one tensor
_MOST_COST = 1 << 28  # of all operations together, in elements: about a second
_MOST_DEPTH = 100  # of operations that need each other
_MOST_COPIED = 1 << 20  # elements of a value whose changes torch does not count
_SMALL = 1 << 14  # elements that are copied at once
_CPU = torch.device("cpu")


class _NoRecipeError(Exception):
    """A value is unknown, or belongs to a model."""


class _Value:
    """A real tensor as it is now: a later change of a large one makes its recipes worthless."""

    __slots__ = ("_tensor", "_version")

    def __init__(self, tensor: torch.Tensor) -> None:
        is_counted = not tensor.is_inference()
        if tensor.numel() > _MOST_COPIED and not is_counted:
            raise _NoRecipeError
        if not is_counted or tensor.numel() <= _SMALL:
            with outside_modes(), torch.inference_mode(False):
                tensor = tensor.clone()
        self._tensor = tensor
        self._version = tensor._version

    def get(self) -> torch.Tensor:
        if self._tensor._version != self._version:
            raise _NoRecipeError
        return self._tensor


class _Room:
    """A tensor of which only the shape and the type count."""

    __slots__ = ("_dtype", "_shape")

    def __init__(self, tensor: torch.Tensor) -> None:
        self._shape, self._dtype = tuple(tensor.shape), tensor.dtype

    def get(self) -> torch.Tensor:
        return torch.empty((), dtype=self._dtype, device="cpu").expand(self._shape)


class _View(NamedTuple):
    """How to get from a tensor to a view of it."""

    op: Operation
    args: list[Any]
    kwargs: dict[str, Any]
    place: int

    def of(self, tensor: torch.Tensor) -> torch.Tensor:
        found = self.op.func(tensor, *_evaluated(self.args, {}), **self.kwargs)
        return found[self.place] if isinstance(found, (tuple, list)) else found


class Recipe:
    """One operation with its arguments; `place` is that of the tensor among the results.

    An operation that writes a tensor, maybe through a view of it, has that tensor as its result.
    """

    __slots__ = (
        "_args",
        "_kwargs",
        "_op",
        "_place",
        "_seed",
        "_value",
        "_views",
        "cost",
        "depth",
        "is_assumed",
        "is_random",
    )

    def __init__(
        self,
        op: Operation,
        args: Any,
        kwargs: Any,
        used: _Used,
        seed: int,
        place: int = 0,
        views: Sequence[_View] = (),
    ) -> None:
        self._op = op
        self._args = args
        self._kwargs = kwargs
        self._place = place
        self._views = views
        self._seed = seed
        self._value: torch.Tensor | None = None
        self.cost = used.cost
        self.depth = used.depth + 1
        self.is_assumed = used.is_assumed
        self.is_random = used.is_random or draws_on_its_own(op)

    def value(self) -> torch.Tensor | None:
        """The values, on the CPU; None if they cannot be computed after all."""
        if self._value is None:
            try:
                with outside_modes(), torch.no_grad(), torch.inference_mode(False):
                    self._value = self._compute({})
            except Exception:  # A CPU kernel may be missing, or a value has changed.
                return None
        return self._value

    def _compute(self, done: dict[int, torch.Tensor]) -> torch.Tensor:
        if self._value is not None:
            return self._value
        found = done.get(id(self))
        if found is not None:
            return found
        args = _evaluated(self._args, done)
        kwargs = _evaluated(self._kwargs, done)
        written = None
        if self._op.writes:
            written = args[0].clone(memory_format=torch.contiguous_format)
            args[0] = written
            for view in self._views:
                args[0] = view.of(args[0])
        draws = numbers_from(self._seed) if draws_on_its_own(self._op) else nullcontext()
        with draws:
            results = self._op.func(*args, **kwargs)
        if written is not None:
            results = written
        elif isinstance(results, (tuple, list)):
            results = results[self._place]
        done[id(self)] = results
        return results


def _evaluated(value: Any, done: dict[int, torch.Tensor]) -> Any:
    if isinstance(value, Recipe):
        return value._compute(done)
    if isinstance(value, (_Value, _Room)):
        return value.get()
    if isinstance(value, (tuple, list)):
        return [_evaluated(each, done) for each in value]
    if isinstance(value, dict):
        return {name: _evaluated(each, done) for name, each in value.items()}
    return value


class _Used:
    """What the arguments of an operation add up to."""

    def __init__(self) -> None:
        self.cost = 0
        self.depth = 0
        self.is_assumed = False
        self.is_random = False

    def add(self, recipe: Recipe) -> None:
        self.cost += recipe.cost
        self.depth = max(self.depth, recipe.depth)
        self.is_assumed = self.is_assumed or recipe.is_assumed
        self.is_random = self.is_random or recipe.is_random

    def is_too_much(self) -> bool:
        return self.cost > _MOST_COST or self.depth >= _MOST_DEPTH


class _Base:
    """A tensor with a recipe, shared by all views of it: who writes one of them writes all."""

    __slots__ = ("recipe", "writes")

    def __init__(self, recipe: Recipe, writes: int) -> None:
        self.recipe: Recipe | None = recipe
        self.writes = writes  # of its storage, up to now


class _Attached(NamedTuple):
    """What a tensor knows of its recipe."""

    base: _Base
    views: tuple[_View, ...]
    shape: torch.Size
    dtype: torch.dtype


class Recipes:
    """Notes recipes with tensors. One object serves all threads."""

    def __init__(self) -> None:
        self._number = 0

    def note(
        self,
        op: Operation,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        targets: Sequence[FakeTensor],
    ) -> Recipe | None:
        """The recipe of the first result, if all values that it needs are known."""
        if not can_be_computed(op) or any(map(_has_no_recipe, targets)):
            return None
        source = _attached(args[0]) if op.returns_view and args else None
        try:
            if source is not None:
                if _has_no_recipe(args[0]):
                    return None
                _note_views(op, args, kwargs, targets, source)
                return recipe_of(targets[0])
            recipes = self._make(op, args, kwargs, targets)
        except _NoRecipeError:
            return None
        for target, recipe in zip(targets, recipes):
            _attach(target, recipe)
        return recipes[0] if recipes else None

    def _make(
        self,
        op: Operation,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        targets: Sequence[FakeTensor],
    ) -> list[Recipe]:
        used = _Used()
        kept = _kept_arguments(op, args, used)
        named = _kept_names(kwargs, used)
        elements = sum(int(each.numel()) for each in targets)
        used.cost += cost_of(op, args, elements)
        if elements > _MOST_ELEMENTS or used.is_too_much():
            return []
        self._number += 1
        number = self._number
        return [Recipe(op, kept, named, used, number, place) for place in range(len(targets))]

    def before_write(
        self, op: Operation, args: Sequence[Any], kwargs: Mapping[str, Any], written: FakeTensor
    ) -> Recipe | None:
        """The recipe that a tensor, or what it is a view of, has after it is written."""
        if not can_be_computed(op) or _has_no_recipe(written) or args[0] is not written:
            return None
        attached = _attached(written)
        views = attached.views if attached is not None else ()
        used = _Used()
        try:
            rest = [_kept(each, used) for each in args[1:]]
            named = _kept_names(kwargs, used)
            if attached is not None and attached.base.recipe is not None and views:
                used.add(attached.base.recipe)
                kept = [attached.base.recipe, *rest]
            else:
                kept = [*_kept_arguments(op, args[:1], used), *rest]
        except _NoRecipeError:
            return None
        used.cost += cost_of(op, args, int(written.numel()))
        if int(written.numel()) > _MOST_ELEMENTS or used.is_too_much():
            return None
        self._number += 1
        return Recipe(op, kept, named, used, self._number, views=views)

    def after_write(self, written: FakeTensor, recipe: Recipe | None) -> None:
        """The tensor was written; without a recipe its values, and those of views, are unknown."""
        attached = _attached(written)
        if recipe is None or attached is None:
            _note_write(written)
            written.__dict__.pop("_recipe", None)
            if recipe is not None:
                _attach(written, recipe)
            return
        attached.base.recipe = recipe
        attached.base.writes = _note_write(written)


def _note_views(
    op: Operation,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    targets: Sequence[FakeTensor],
    source: _Attached,
) -> None:
    used = _Used()
    rest = [_kept(each, used) for each in args[1:]]
    named = _kept_names(kwargs, used)
    if len(source.views) >= _MOST_DEPTH:
        return
    for place, target in enumerate(targets):
        views = (*source.views, _View(op, rest, named, place))
        target.__dict__["_recipe"] = _Attached(source.base, views, target.shape, target.dtype)


# By storage: how often it was written since a tensor in it first had a recipe. An address that is
# used again goes on counting, which does no harm.
_writes: dict[int, int] = {}


def _note_write(tensor: FakeTensor) -> int:
    """Recipes of others in this storage no longer hold; how often it was written."""
    key = _storage_of(tensor) if _writes else 0
    if key not in _writes:
        return 0
    _writes[key] += 1
    return _writes[key]


def _attach(tensor: FakeTensor, recipe: Recipe) -> None:
    count = _writes.setdefault(_storage_of(tensor), 0)
    tensor.__dict__["_recipe"] = _Attached(_Base(recipe, count), (), tensor.shape, tensor.dtype)


def _attached(tensor: Any) -> _Attached | None:
    """What holds of a tensor now."""
    found = tensor.__dict__.get("_recipe") if isinstance(tensor, FakeTensor) else None
    if (
        found is None
        or found.base.recipe is None
        or found.shape != tensor.shape
        or found.dtype != tensor.dtype
        or _writes.get(_storage_of(tensor)) != found.base.writes
    ):
        return None
    return found  # type: ignore[no-any-return]


def recipe_of(tensor: Any) -> Recipe | None:
    """How to compute the values of a tensor; None if that is not known."""
    attached = _attached(tensor)
    if attached is None:
        return None
    recipe = attached.base.recipe
    for op, args, kwargs, place in attached.views:
        used = _Used()
        assert recipe is not None
        used.add(recipe)
        recipe = Recipe(op, [recipe, *args], kwargs, used, 0, place)
    return recipe


def _storage_of(tensor: FakeTensor) -> int:
    """0 for a sparse tensor, which has several."""
    if tensor.layout is not torch.strided:
        return 0
    return int(tensor.untyped_storage()._cdata)


def _has_no_recipe(tensor: FakeTensor) -> bool:
    """Whether it belongs to a model, or is not an array of numbers."""
    # A fake parameter is one, too.
    return tensor.layout is not torch.strided or isinstance(tensor, torch.nn.Parameter)


def _kept_arguments(op: Operation, args: Sequence[Any], used: _Used) -> list[Any]:
    kept = list(args)
    if op.name in USES_SHAPE_ALONE and isinstance(args[0], torch.Tensor):
        kept[0] = _Room(args[0])
    return [_kept(each, used) for each in kept]


def _kept_names(kwargs: Mapping[str, Any], used: _Used) -> dict[str, Any]:
    return {
        name: _kept(each, used)
        for name, each in kwargs.items()
        if name not in ("pin_memory", "generator")
    }


def _kept(value: Any, used: _Used) -> Any:
    """An argument for later, without the tensors of the program."""
    if isinstance(value, FakeTensor):
        if _has_no_recipe(value):
            raise _NoRecipeError
        known = value.__dict__.get("_known_value")
        if known is None:
            known = value.constant
        if known is not None and known.shape == value.shape and known.dtype == value.dtype:
            used.is_assumed = used.is_assumed or "_assumed" in value.__dict__
            return _Value(known)
        recipe = recipe_of(value)
        if recipe is None:
            raise _NoRecipeError
        used.add(recipe)
        return recipe
    if isinstance(value, torch.Tensor):
        return _Value(value)
    if isinstance(value, (tuple, list)):
        return [_kept(each, used) for each in value]
    return _CPU if isinstance(value, torch.device) else value
