"""What tensors and autograd's graph keep alive, read without calling anything of the program.

Python's garbage collector does not see what C++ holds: the tensors that a graph saved, gradients,
and the graph itself. Everything here is read from torch's own attributes. ``_saved_*`` is never
read: it would unpack, and so run the program's hooks and recompute its checkpoints.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import types
from collections.abc import Iterable, Iterator
from typing import Any, Callable

__all__ = [
    "StorageLife",
    "address_of",
    "forget_types",
    "gradient_of",
    "graph_of",
    "hooks_of",
    "is_graph_node",
    "kept_by",
    "next_nodes",
    "node_kinds",
    "quiet_torch",
    "raw_tensors",
    "tensor_kinds",
]

_RAW = "_raw_saved_"


def _all_subclasses(kind: type) -> set[type]:
    found: set[type] = set()
    waiting = [kind]
    while waiting:
        current = waiting.pop()
        if current not in found:
            found.add(current)
            waiting += type.__subclasses__(current)
    return found


def tensor_kinds() -> tuple[set[type], set[type]]:
    """All types of tensors, and all types of untyped storages; none in a program without torch."""
    if "torch" not in sys.modules:
        return set(), set()
    import torch

    base: Any = torch._C
    return _all_subclasses(base.TensorBase), _all_subclasses(base.StorageBase)


@contextlib.contextmanager
def quiet_torch() -> Iterator[None]:
    """Inside, no ``__torch_function__`` of the program runs."""
    if "torch" not in sys.modules:
        yield
        return
    import torch

    with torch._C.DisableTorchFunction():
        yield


@functools.cache
def _addresses() -> Callable[[Any], int]:
    import torch

    base: Any = torch._C
    # Unlike data_ptr(), it copies nothing where a storage is copied on its first write.
    found: Callable[[Any], int] = getattr(base, "_data_address", base.TensorBase.data_ptr)
    return found


def address_of(thing: Any, is_storage: bool = False) -> int:
    """Where the memory of a tensor or a storage begins; 0 if it has none of its own."""
    import torch

    base: Any = torch._C
    try:
        return int(base.StorageBase.data_ptr(thing) if is_storage else _addresses()(thing))
    except Exception:  # It is sparse, wrapped, or has no storage: its parts are tensors themselves.
        return 0


@functools.cache
def _slot(name: str) -> Callable[[Any], Any]:
    """The getter of an attribute of tensors: no attribute of the program takes its place."""
    import torch

    base: Any = torch._C
    getter: Callable[[Any], Any] = base.TensorBase.__dict__[name].__get__
    return getter


def graph_of(tensor: Any) -> Any:
    """The node that made the tensor; None for a leaf."""
    return _slot("grad_fn")(tensor)


def gradient_of(tensor: Any) -> Any:
    """The gradient that the tensor keeps; None if it keeps none."""
    # Asking a tensor that keeps none gives a warning.
    if _slot("is_leaf")(tensor) or _slot("retains_grad")(tensor):
        return _slot("grad")(tensor)
    return None


def hooks_of(thing: Any) -> list[tuple[str, Any]]:
    """The dicts of hooks that are registered on a tensor; none if it is not a tensor."""
    import torch

    base: Any = torch._C.TensorBase
    if not issubclass(type(thing), base):
        return []
    names = ("_backward_hooks", "_post_accumulate_grad_hooks")
    found = [(name, _slot(name)(thing)) for name in names if name in base.__dict__]
    return [(name, hooks) for name, hooks in found if hooks is not None]


def raw_tensors(thing: Any) -> list[Any]:
    """The tensors inside a sparse one, by reference, not by copy."""
    import torch

    base: Any = torch._C.TensorBase
    found = []
    with contextlib.suppress(Exception):
        if thing.layout is torch.sparse_coo:
            found = [base._indices(thing), base._values(thing)]
        elif thing.layout in (torch.sparse_csr, torch.sparse_bsr):
            found = [base.crow_indices(thing), base.col_indices(thing), base.values(thing)]
        elif thing.layout in (torch.sparse_csc, torch.sparse_bsc):
            found = [base.ccol_indices(thing), base.row_indices(thing), base.values(thing)]
    return found


def is_graph_node(thing: Any) -> bool:
    """Whether it is a node of autograd's graph, made by torch or by a function of the program."""
    kind = type(thing)
    return _next_getter(kind) is not None


def node_kinds(kinds: Iterable[type]) -> set[type]:
    """Those that are types of nodes."""
    return {kind for kind in kinds if _next_getter(kind) is not None}


_getters: dict[type, Any] = {}
_raw_names: dict[type, list[tuple[str, Any]]] = {}


def _next_getter(kind: type) -> Any:
    if kind not in _getters:
        found = None
        for part in type.__dict__["__mro__"].__get__(kind):
            entry = type.__dict__["__dict__"].__get__(part).get("next_functions")
            if type(entry) is types.GetSetDescriptorType:
                found = entry.__get__
                break
        _getters[kind] = found
    return _getters[kind]


def forget_types() -> None:
    """Drop what was learned: the classes of the program are not kept alive."""
    _getters.clear()
    _raw_names.clear()


def _raw_getters(kind: type) -> list[tuple[str, Any]]:
    """The names of what a node of this type saves, with how to read it without unpacking."""
    if kind not in _raw_names:
        found: dict[str, Any] = {}
        for part in type.__dict__["__mro__"].__get__(kind):
            for name, entry in type.__dict__["__dict__"].__get__(part).items():
                if type(entry) is not types.GetSetDescriptorType:
                    continue
                if name.startswith(_RAW):
                    found.setdefault(name[len(_RAW) :], entry.__get__)
                elif name == "variable" and kind.__name__ == "AccumulateGrad":
                    found.setdefault(name, entry.__get__)
        _raw_names[kind] = list(found.items())
    return _raw_names[kind]


def next_nodes(node: Any) -> list[Any]:
    """The nodes that a node leads to."""
    getter = _next_getter(type(node))
    try:
        return [entry[0] for entry in getter(node) if entry[0] is not None]
    except Exception:
        return []


def kept_by(node: Any) -> Iterator[tuple[str, Any]]:
    """What a node keeps for backward, each with its name: tensors, or what a hook packed them into.

    A node that has run backward keeps nothing.
    """
    for name, getter in _raw_getters(type(node)):
        try:
            kept = getter(node)
        except Exception:  # It was freed by backward.
            continue
        is_leaf = name == "variable"
        several = type(kept) in (tuple, list)
        for index, saved in enumerate(kept if several else (kept,)):
            if saved is None:
                continue
            try:
                value = saved if is_leaf else saved.data
            except Exception:
                continue
            if value is not None:
                shown = name if is_leaf else f"_saved_{name}"
                yield (f"{shown}[{index}]" if several else shown), value


class StorageLife:
    """Whether the memory of a tensor still exists, known without keeping it alive."""

    __slots__ = ("_reference", "address", "bytes")

    def __init__(self, tensor: Any) -> None:
        """Raises if the tensor has no storage of its own."""
        import torch

        with torch._C.DisableTorchFunction():
            storage = tensor.untyped_storage()
            self.address = int(storage.data_ptr())
            self.bytes = int(storage.nbytes())
        self._reference = storage._weak_ref()

    def is_over(self) -> bool:
        """Whether the memory has been freed."""
        import torch

        return bool(torch.UntypedStorage._expired(self._reference))

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            import torch

            torch.UntypedStorage._free_weak_ref(self._reference)
