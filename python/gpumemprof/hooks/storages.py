"""Maps tensors to their storages, and to the labels that name them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from gpumemprof import _core
from gpumemprof._core import LabelKind
from gpumemprof.torch_calls.tensors import is_tensor, offset_of, storages_of

__all__ = ["LabelSet", "are_plain", "named_storages", "pointers", "starts", "tensors_in"]

_DEEPEST = 6
_MOST_ITEMS = 10_000

Row = tuple[LabelKind, int, int, str]
Named = tuple[LabelKind, str, Any]
"""The kind of a tensor, its name, and the tensor."""


def pointers(tensors: list[Any]) -> list[int]:
    """The address of each tensor's memory, 0 for none: a cheap way to see that something moved."""
    try:
        places = [0 if tensor is None else tensor.data_ptr() for tensor in tensors]
        if 0 not in places or not any(
            place == 0 and tensor is not None for place, tensor in zip(places, tensors)
        ):
            return places
    except (RuntimeError, NotImplementedError):
        pass
    # One of them is sparse or wrapped: its address raises an error or is 0.
    return [
        address for tensor in tensors if tensor is not None for _, address in storages_of(tensor)
    ]


def are_plain(tensors: list[Any]) -> bool:
    """Whether each tensor has memory of its own and wraps no other tensor."""
    try:
        return all(tensor.data_ptr() for tensor in tensors)
    except (RuntimeError, NotImplementedError):
        return False


def starts(tensors: list[Any], places: list[int]) -> list[int]:
    """The start of the storage of each tensor, given the tensors' addresses."""
    return [
        place - offset * tensor.element_size() if (offset := tensor.storage_offset()) else place
        for tensor, place in zip(tensors, places)
    ]


def tensors_in(value: Any, name: str, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """The tensors in nested lists, tuples and dicts, each named after its position."""
    if is_tensor(value):
        yield name, value
    elif depth < _DEEPEST and isinstance(value, (list, tuple)):
        for index, item in enumerate(value[:_MOST_ITEMS]):
            yield from tensors_in(item, f"{name}.{index}", depth + 1)
    elif depth < _DEEPEST and isinstance(value, dict):
        for key, item in list(value.items())[:_MOST_ITEMS]:
            yield from tensors_in(item, f"{name}.{key}", depth + 1)


def _joined(names: list[tuple[str, int]]) -> str:
    """One name per storage: tied tensors are named together, views of one buffer by the first."""
    first, start = names[0]
    if len(names) == 1:
        return first
    if all(other == start for _, other in names) and len(names) <= 4:
        return " = ".join(name for name, _ in names)
    return f"{first} and {len(names) - 1} more"


def named_storages(tensors: Iterable[Named]) -> list[Row]:
    """One row of (kind, device, address, name) per storage; the first kind wins."""
    kinds: dict[tuple[int, int], LabelKind] = {}
    names: dict[tuple[int, int], list[tuple[str, int]]] = {}
    for kind, name, tensor in tensors:
        start = offset_of(tensor)
        for place in storages_of(tensor):
            if kinds.setdefault(place, kind) == kind:
                names.setdefault(place, []).append((name, start))
    return [(kind, *place, _joined(names[place])) for place, kind in kinds.items()]


class LabelSet:
    """A set of labels, reported again only when it changes."""

    def __init__(self) -> None:
        self._rows: list[Row] = []
        self._number: int | None = None

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def number(self) -> int:
        """The recorder's number for this set; -1 if nothing was reported."""
        return -1 if self._number is None else self._number

    @number.setter
    def number(self, number: int) -> None:
        self._number = None if number < 0 else number

    def emit(self, rows: list[Row]) -> None:
        """These hold now; their tensors must stay alive until this returns."""
        if self._number is None or rows != self._rows:
            self.forget()
            if not rows:
                return
            self._number = _core.capture_define_labels(rows)
            self._rows = rows
        _core.capture_apply_labels(self._number)

    def emit_moved(self, addresses: list[int]) -> None:
        """The same rows as before, but at these addresses."""
        if self._number is not None and len(addresses) == len(self._rows):
            self._number = _core.capture_move_labels(self._number, addresses)
            _core.capture_apply_labels(self._number)

    def emit_read(self, places: _core.TensorPlaces) -> None:
        """The same rows as before, but at the addresses just read for the gradients."""
        if self._number is not None:
            self._number = places.move_labels(self._number)
            _core.capture_apply_labels(self._number)

    def emit_again(self) -> None:
        """The same rows as before still hold."""
        if self._number is not None:
            _core.capture_apply_labels(self._number)

    def forget(self) -> None:
        """They will not be reported again."""
        if self._number is not None:
            _core.capture_forget_labels(self._number)
        self._number = None
        self._rows = []
