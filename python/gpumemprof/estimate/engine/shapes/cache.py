"""Remembers the shapes that an operation returns, in front of torch's fake mode.

The fake mode takes about 100 µs for an operation; a program that generates text calls hundreds of
thousands. The shapes of results depend only on shapes, layouts, types and devices of the arguments
and on the numbers among them, so that the second call with the same ones needs no fake mode.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._pytree import tree_map

from gpumemprof.estimate.engine.device import torch_release
from gpumemprof.estimate.engine.fake_mode import FakeMode, without_fake_mode
from gpumemprof.estimate.engine.operation import Operation
from gpumemprof.estimate.engine.shapes.checks import check_arguments

__all__ = ["ShapeCache"]

_MOST_ENTRIES = 4096  # of one operation
_LIFTS = ("lift", "lift_fresh", "lift_fresh_copy")  # of real tensors, by their nature
_META = torch.device("meta")
_TRACING = torch._C._TorchDispatchModeKey.PROXY
_PLAIN_TYPES = frozenset(
    (int, str, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format)
)
# They change the layout of an argument, or read more than shapes.
_NEVER = frozenset(("resize_", "set_", "resize_as_", "lift_fresh", "lift", "_efficientzerotensor"))


class _New(NamedTuple):
    shape: torch.Size
    stride: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device


class _View(NamedTuple):
    argument: int  # which of the tensors among the arguments
    shape: torch.Size
    stride: tuple[int, ...]
    offset: int
    dtype: torch.dtype


class _Same(NamedTuple):
    argument: int


class _Recipe(NamedTuple):
    outputs: tuple[_New | _View | _Same | None, ...]
    container: type | None  # list or tuple; None is a single tensor


class _NotCacheableError(Exception):
    """A key or a result that a later call cannot reuse."""


def can_cache(op: Operation) -> bool:
    schema = op.func._schema
    return (
        schema.name.startswith("aten::")
        and op.name not in _NEVER
        and not any(argument.is_out for argument in schema.arguments)
        and torch.Tag.inplace_view not in op.func.tags  # as unsqueeze_: the argument changes shape
        and torch.Tag.data_dependent_output not in op.func.tags
        and torch.Tag.dynamic_output_shape not in op.func.tags
    )


class ShapeCache:
    """Results of operations on fake tensors, remembered in each operation's `shapes`."""

    def __init__(self, fake_mode: FakeMode) -> None:
        self._fake_mode = fake_mode
        # Older releases compute for real where no tensor is fake, also on a card.
        self._sees_real_tensors = torch_release() >= (2, 11)
        self._attributes: dict[torch.device, dict[str, Any]] = {}

    def run(self, op: Operation, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        shapes = op.shapes
        # What traces the program (make_fx) must see its operations, not how results are made here.
        if shapes is None or torch._C._get_dispatch_mode(_TRACING) is not None:
            return self._run_fake(op, args, kwargs)
        tensors: list[FakeTensor] = []
        try:
            # Results without a type of their own have the default one.
            key = (torch.get_default_dtype(), *_key_of(args, tensors, op.returns_view))
            if kwargs:
                key = (key, *((name, _key_of((kwargs[name],), tensors, False)) for name in kwargs))
        except _NotCacheableError:
            check_arguments(op.name, args, kwargs)
            return self._run_fake(op, args, kwargs)
        recipe = shapes.get(key)
        if recipe is None:
            check_arguments(op.name, args, kwargs)
            outputs = op.func(*args, **kwargs)
            if len(shapes) >= _MOST_ENTRIES:
                shapes.clear()
            shapes[key] = _recipe(outputs, tensors, op.returns_view) or False
            return outputs
        if recipe is False or (op.writes and any(t.constant is not None for t in tensors)):
            return op.func(*args, **kwargs)
        return self._follow(recipe, tensors)

    def _run_fake(self, op: Operation, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """With the fake mode, also where all tensors are real."""
        if self._sees_real_tensors or op.writes or op.name in _LIFTS:
            return op.func(*args, **kwargs)
        with without_fake_mode():
            args, kwargs = tree_map(self._as_fake, (args, kwargs))
        return op.func(*args, **kwargs)

    def _as_fake(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor) and not isinstance(value, FakeTensor):
            return self._fake_mode.from_tensor(value, static_shapes=True)
        return value

    def _follow(self, recipe: _Recipe, tensors: Sequence[FakeTensor]) -> Any:
        if recipe.container is None:
            output = recipe.outputs[0]
            if type(output) is _Same:
                return tensors[output.argument]
            with without_fake_mode():
                return self._make(output, tensors)
        with without_fake_mode():
            return recipe.container([self._make(each, tensors) for each in recipe.outputs])

    def _make(self, what: _New | _View | _Same | None, tensors: Sequence[FakeTensor]) -> Any:
        if type(what) is _New:
            shape, stride, dtype, device = what
            data = torch.empty_strided(shape, stride, dtype=dtype, device=_META)
            return self._fake(data, device)
        if type(what) is _View:
            if torch.is_inference_mode_enabled() and not tensors[what.argument].is_inference():
                # A view of an ordinary tensor is an ordinary tensor.
                with torch.inference_mode(False):
                    return self._view(what, tensors[what.argument])
            return self._view(what, tensors[what.argument])
        return tensors[what.argument] if type(what) is _Same else None

    def _view(self, what: _View, base: FakeTensor) -> FakeTensor:
        data = torch.empty((0,), dtype=what.dtype, device=_META)
        data.set_(base.untyped_storage(), what.offset, what.shape, what.stride)
        return self._fake(data, base.fake_device)

    def _fake(self, data: torch.Tensor, device: torch.device) -> FakeTensor:
        """As the constructor of FakeTensor, which takes ten times as long."""
        attributes = self._attributes.get(device)
        if attributes is None:
            made = FakeTensor(self._fake_mode, data, device)
            attributes = self._attributes[device] = dict(made.__dict__)
            return made
        fake = torch.Tensor._make_subclass(
            FakeTensor, data, False, dispatch_device=True, device_for_backend_keys=device
        )
        torch._C._set_throw_on_mutable_data_ptr(fake)
        fake.__dict__.update(attributes)
        return fake


def _key_of(values: Sequence[Any], tensors: list[FakeTensor], with_offset: bool) -> tuple[Any, ...]:
    """What the shapes of results depend on; collects the tensors."""
    parts: list[Any] = []
    for value in values:
        kind = type(value)
        if kind is FakeTensor:
            dtype = value.dtype
            if dtype.is_complex or value.layout is not torch.strided:
                raise _NotCacheableError
            parts += (value.shape, value.stride(), dtype, value.fake_device)
            if with_offset:
                parts.append(value.storage_offset())
            tensors.append(value)
        elif kind in _PLAIN_TYPES:
            parts.append(value)
        elif kind is float:
            parts.append(float)  # its value does not matter
        elif kind is bool:
            parts.append("true" if value else "false")  # True equals 1
        elif kind is list or kind is tuple:
            parts.append(_key_of(value, tensors, with_offset))
        else:
            raise _NotCacheableError
    return tuple(parts)


def _recipe(outputs: Any, tensors: Sequence[FakeTensor], may_be_view: bool) -> _Recipe | None:
    container = type(outputs) if isinstance(outputs, (tuple, list)) else None
    if container not in (None, tuple, list):
        return None
    found: list[Any] = []
    seen: set[int] = set()
    for output in (outputs,) if container is None else outputs:
        if output is None:
            found.append(None)
            continue
        if type(output) is not FakeTensor or output.layout is not torch.strided:
            return None
        same = next((i for i, each in enumerate(tensors) if each is output), None)
        if same is not None:
            found.append(_Same(same))
            continue
        what = _described(output, tensors, may_be_view, seen)
        if what is None:
            return None
        found.append(what)
    return _Recipe(tuple(found), container)


def _described(
    output: FakeTensor, tensors: Sequence[FakeTensor], may_be_view: bool, seen: set[int]
) -> _New | _View | None:
    storage = output.untyped_storage()
    shape, stride, dtype = output.shape, output.stride(), output.dtype
    if dtype.is_complex:
        return None
    for index, each in enumerate(tensors):
        if each.untyped_storage()._cdata == storage._cdata:
            if not may_be_view or each.fake_device != output.fake_device:
                return None
            return _View(index, shape, stride, output.storage_offset(), dtype)
    if output.storage_offset() or storage._cdata in seen:
        return None
    extent = 1 + sum((size - 1) * step for size, step in zip(shape, stride)) if shape.numel() else 0
    if storage.nbytes() != extent * output.element_size():
        return None
    seen.add(storage._cdata)
    return _New(shape, stride, dtype, output.fake_device)
