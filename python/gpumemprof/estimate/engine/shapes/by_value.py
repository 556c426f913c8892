"""Operations whose results have a size that depends on values: nonzero, masks, unique, and so on.

The size is the true one where the values are known, else the user's, else the largest possible.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Callable

import torch

from gpumemprof.estimate.engine.assumptions import Assumptions
from gpumemprof.estimate.engine.fake_mode import outside_modes
from gpumemprof.estimate.engine.operation import Operation
from gpumemprof.estimate.engine.reading.answers import Answers
from gpumemprof.estimate.engine.shapes.kernel_memory import take_nms_memory, take_unique_memory
from gpumemprof.estimate.engine.shapes.marks import note_selected
from gpumemprof.estimate.engine.shapes.shares import BY_CHANCE, FEW_FOUND, Share, share_of
from gpumemprof.estimate.engine.user_lines import current_line
from gpumemprof.estimate.engine.value_limits import limits
from gpumemprof.estimate.engine.values import is_assumed, is_drawn, set_known, wanted_value

__all__ = ["DataShapes"]

aten = torch.ops.aten
_MOST_PLACES = 1 << 18


class DataShapes:
    """Answers such operations; each function returns NotImplemented where nothing is special."""

    def __init__(
        self,
        assumptions: Assumptions,
        answers: Answers,
        on_assumed_size: Callable[[int, bool], None],
    ) -> None:
        """`on_assumed_size` is told sizes that nobody knows, and whether they are the most."""
        self._assumptions = assumptions
        self._on_assumed_size = on_assumed_size
        self._answers = answers
        self.functions: dict[str, Callable[[Operation, Sequence[Any], dict[str, Any]], Any]] = {
            "nonzero": self._nonzero,
            "masked_select": self._masked_select,
            "index": self._index,
            "index_put": self._index_put,
            "index_put_": self._index_put,
            "_index_put_impl_": self._index_put,
            "_unique2": self._unique,
            "_unique": self._unique,
            "unique_consecutive": self._unique_consecutive,
            "unique_dim": self._unique_dim,
            "unique_dim_consecutive": self._unique_dim,
            "repeat_interleave": self._repeat_interleave,
            "bincount": self._bincount,
            "_pack_padded_sequence": self._pack_padded_sequence,
            "torchvision::nms": self._nms,
            "_to_sparse": self._to_sparse,
        }

    def _size(
        self,
        what: str,
        values: Sequence[torch.Tensor],
        most: int,
        count: Callable[[], int],
        share: Share | None = None,
    ) -> int:
        """How many there are: counted, chosen by the user, expected, or the largest number."""
        line = current_line()
        chosen = self._answers.chosen_at(line)
        if chosen is not None:
            return min(most, int(chosen) if chosen >= 1 else round(chosen * most))
        known = all(_decided_value(each) is not None for each in values)
        if known:
            with outside_modes():
                size = count()
            if any(is_assumed(each) for each in values):
                text = f"{what}: {size} of at most {most}, if choices are spread evenly"
                if limits.is_raised:  # Each would be another number.
                    text = f"{what}: as many as follow from values that were assumed"
                self._assumptions.add("shape", text, line)
            elif any(is_drawn(each) for each in values):
                text = f"{what}: {size} of at most {most}, {BY_CHANCE}"
                self._assumptions.add("shape", text, line)
            return size
        if share is not None:
            size = min(most, round(share.part * most))
            text = f"{what}: {size} of at most {most}, {share.reason}"
            self._assumptions.add("shape", text, line)
            if share.reason == FEW_FOUND:
                self._on_assumed_size(size, False)
            return size
        text = f"{what}: as many as possible ({most})"
        self._assumptions.add("shape", text, line)
        self._on_assumed_size(most, True)
        return most

    def _count(self, mask: torch.Tensor, what: str) -> int:
        known = _decided_value(mask)
        return self._size(
            what,
            [mask],
            mask.numel(),
            lambda: int(torch.count_nonzero(known)),
            share_of(mask),
        )

    def _nonzero(self, op: Operation, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        mask = args[0]
        size = self._count(mask, "elements that are not zero")
        if mask.device.type == "cuda":  # The kernel writes a row per dimension.
            found = torch.empty((mask.dim(), size), dtype=torch.int64, device=mask.device).t()
        else:
            found = torch.empty((size, mask.dim()), dtype=torch.int64, device=mask.device)
        known = _decided_value(mask)
        if known is not None:
            with outside_modes():
                places = torch.nonzero(known)
            if len(places) == size:
                set_known(found, places, is_assumed(mask))
        elif 0 < size * mask.dim() <= _MOST_PLACES:
            with outside_modes():
                set_known(found, _places(mask.shape, size, share_of(mask)), assumed=True)
        return found

    def _masked_select(self, op: Operation, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        tensor, mask = args[:2]
        shape = torch.broadcast_shapes(tensor.shape, mask.shape)
        copies = math.prod(shape) // max(1, mask.numel())
        size = self._count(mask, "elements that a mask selects") * copies
        places = None
        if tensor.device.type == "cuda":  # The kernel finds their places first.
            places = torch.empty((len(shape), size), dtype=torch.int64, device=tensor.device)
        selected = tensor.new_empty((size,))
        del places
        return selected

    def _index(self, op: Operation, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        tensor, indices = args[:2]
        if not any(map(_is_mask, indices)):
            return NotImplemented
        selected = aten.index.Tensor(tensor, _with_places(indices))
        note_selected(tensor, indices, selected)
        return selected

    def _index_put(self, op: Operation, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """The rule takes over the places where conditions hold."""
        tensor, indices, values = args[:3]
        if not tensor.is_cuda or not any(map(_is_mask, indices)):
            return NotImplemented
        used = [each for each in indices if each is not None]
        if values.numel() == 1 and values.device.type == "cpu" and len(used) == 1:
            return NotImplemented  # One number is filled in where the condition holds.
        tensor.__dict__["_places"] = _with_places(indices)
        return NotImplemented

    def _to_sparse(self, op: Operation, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """The elements that are not zero, of a dense tensor with all of its dimensions sparse."""
        tensor = args[0]
        layout = kwargs.get("layout") or torch.sparse_coo
        is_whole = len(args) == 1 or args[1] in (None, tensor.dim())
        if tensor.layout != torch.strided or layout != torch.sparse_coo or not is_whole:
            return NotImplemented
        places = aten.nonzero.default(tensor)
        rows = [aten.select.int(places, 1, dim) for dim in range(tensor.dim())]
        values = aten.index.Tensor(tensor, rows)
        found = torch.sparse_coo_tensor(places.t(), values, tensor.shape, check_invariants=False)
        return found._coalesced_(True)

    def _unique(self, op: Operation, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        tensor = args[0]
        flags = [*args[2:], *[False] * 2]
        with_inverse = flags[0] or kwargs.get("return_inverse", False)
        with_counts = flags[1] or kwargs.get("return_counts", False)
        known = wanted_value(tensor)
        size = self._size(
            "unique elements",
            [tensor],
            tensor.numel(),
            lambda: len(torch.unique(known)),
        )
        if known is not None and not is_assumed(tensor):
            with outside_modes():
                real = torch.unique(known, return_inverse=True, return_counts=True)
        else:
            real = None
        room, inverse = size, None
        held: list[torch.Tensor] = []
        if tensor.is_cuda and tensor.numel() and tensor.dtype != torch.bool:
            # The kernel has room for all elements and does not give back what is left.
            room = tensor.numel()
            held, inverse = take_unique_memory(tensor, with_inverse)
        found = tensor.new_empty((room,))[:size]
        if inverse is None:
            inverse = tensor.new_empty(tensor.shape if with_inverse else (0,), dtype=torch.int64)
        counts = tensor.new_empty((room if with_counts else 0,), dtype=torch.int64)
        results = (found, inverse, counts[:size] if with_counts else counts)
        del held
        if real is not None:
            for fake, value in zip(results, real):
                if fake.shape == value.shape:
                    set_known(fake, value)
        return results if op.name == "_unique2" else results[:2]

    def _unique_consecutive(
        self, op: Operation, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> Any:
        tensor = args[0]
        known = wanted_value(tensor)
        dim = op_argument(op, args, kwargs, "dim")
        most = tensor.numel() if dim is None else tensor.shape[dim]
        size = self._size(
            "runs of equal elements",
            [tensor],
            most,
            lambda: torch.unique_consecutive(known, dim=dim).shape[dim or 0],
        )
        shape = list(tensor.shape) if dim is not None else [size]
        if dim is not None:
            shape[dim] = size
        with_inverse, with_counts = (
            op_argument(op, args, kwargs, name) for name in ("return_inverse", "return_counts")
        )
        inverse_shape = tensor.shape if dim is None else (most,)
        inverse = tensor.new_empty(inverse_shape if with_inverse else (0,), dtype=torch.int64)
        if dim is not None:
            counts = tensor.new_empty((size if with_counts else 0,), dtype=torch.int64)
            return tensor.new_empty(shape), inverse, counts
        # The kernel has room for all elements and does not give back what is left.
        room = most if tensor.is_cuda else size
        found = tensor.new_empty((room,))[:size]
        counts = tensor.new_empty((room if with_counts else 0,), dtype=torch.int64)
        return found, inverse, counts[:size] if with_counts else counts

    def _unique_dim(self, op: Operation, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        tensor, dim = args[:2]
        known = wanted_value(tensor)
        most = tensor.shape[dim]
        size = self._size(
            "unique rows", [tensor], most, lambda: torch.unique(known, dim=dim).shape[dim]
        )
        shape = list(tensor.shape)
        shape[dim] = size
        numbers = {"dtype": torch.int64}
        return (
            tensor.new_empty(shape),
            tensor.new_empty((most,), **numbers),
            tensor.new_empty((size,), **numbers),
        )

    def _repeat_interleave(self, op: Operation, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        repeats = args[0]
        if op.func is not aten.repeat_interleave.Tensor:
            return NotImplemented
        size = op_argument(op, args, kwargs, "output_size")
        known = wanted_value(repeats)
        if size is None:
            if known is None:
                chosen = self._answers.chosen_at(current_line())
                size = int(chosen) if chosen is not None else repeats.numel()
                self._assumptions.add("shape", f"the sum of the repeats was taken to be {size}")
            else:
                with outside_modes():
                    size = int(known.sum())
        found = repeats.new_empty((size,))
        if known is not None:
            with outside_modes():
                value = torch.repeat_interleave(known)
            if len(value) == size:
                set_known(found, value, is_assumed(repeats))
        return found

    def _bincount(self, op: Operation, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        tensor = args[0]
        least = op_argument(op, args, kwargs, "minlength") or 0
        known = wanted_value(tensor)
        weights = op_argument(op, args, kwargs, "weights")
        dtype = torch.int64 if weights is None else torch.float64
        if known is None:
            size = self._size("bins", [tensor], max(least, 1), lambda: 0)
            return tensor.new_empty((size,), dtype=dtype)
        with outside_modes():
            value = torch.bincount(known, minlength=least)
        found = tensor.new_empty(value.shape, dtype=dtype)
        if weights is None:
            set_known(found, value, is_assumed(tensor))
        return found

    def _pack_padded_sequence(
        self, op: Operation, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> Any:
        """As torch's own code, whose loop reads the lengths (ATen/native/PackedSequence.cpp)."""
        data, lengths_tensor, batch_first = args[:3]
        data = data.transpose(0, 1) if batch_first else data
        known = wanted_value(lengths_tensor)
        if known is None:
            lengths = [data.shape[0]] * data.shape[1]
            self._assumptions.add("shape", "sequences were taken to have the full length")
        else:
            with outside_modes():
                lengths = known.tolist()
        steps = []
        batch_sizes: list[int] = []
        start = 0
        for place, length in enumerate(reversed(lengths)):
            if length > start:
                count = len(lengths) - place
                step = data[start:length].narrow(1, 0, count).contiguous()
                steps.append(step.view((-1, *step.shape[2:])))
                batch_sizes += [count] * (length - start)
                start = length
        packed = torch.cat(steps)
        with outside_modes():  # C++ code reads it.
            return packed, torch.tensor(batch_sizes, dtype=torch.int64)

    def _nms(self, op: Operation, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        boxes, scores, threshold = args[:3]
        known = [wanted_value(each) for each in (boxes, scores)]
        kept = None
        if all(each is not None for each in known):
            with outside_modes():
                kept = op.func(*(each.float() for each in known if each is not None), threshold)
        size = self._size(
            "boxes that are kept",
            [boxes, scores],
            boxes.shape[0],
            lambda: boxes.shape[0] if kept is None else len(kept),
        )
        held = take_nms_memory(boxes) if boxes.is_cuda and len(boxes) else []
        found = boxes.new_empty((size,), dtype=torch.int64)
        del held
        if kept is not None and len(kept) == size:
            set_known(found, kept, is_assumed(boxes) or is_assumed(scores))
        return found


def _decided_value(tensor: torch.Tensor) -> torch.Tensor | None:
    """None also where the share that is expected of random numbers is better than one draw."""
    if is_drawn(tensor) and share_of(tensor) is not None:
        return None
    return wanted_value(tensor)


def _is_mask(index: torch.Tensor | None) -> bool:
    return index is not None and index.dtype in (torch.bool, torch.uint8)


def _with_places(indices: Sequence[torch.Tensor | None]) -> list[torch.Tensor | None]:
    """Places, one for each dimension of a condition, instead of conditions."""
    places: list[torch.Tensor | None] = []
    for each in indices:
        if each is None or not _is_mask(each):
            places.append(each)
            continue
        found = aten.nonzero.default(each)
        places.extend(aten.select.int(found, 1, dim) for dim in range(each.dim()))
    return places


def _places(shape: torch.Size, size: int, share: Share | None) -> torch.Tensor:
    """Where a mask may be true: at this many places, as even or as far to one end as expected."""
    count = shape.numel()
    if share is not None and share.where == "first":
        flat = torch.arange(size)
    elif share is not None and share.where == "last":
        flat = torch.arange(count - size, count)
    else:
        flat = torch.arange(size) * count // max(1, size)
    return torch.stack(torch.unravel_index(flat, shape), dim=1)


def op_argument(op: Operation, args: Sequence[Any], kwargs: dict[str, Any], name: str) -> Any:
    """An argument by its name in the operation's schema."""
    if name in kwargs:
        return kwargs[name]
    for index, argument in enumerate(op.func._schema.arguments):
        if argument.name == name:
            if index < len(args):
                return args[index]
            return argument.default_value if argument.has_default_value() else None
    return None
