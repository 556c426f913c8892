"""``expect_freed``: the program says that it is done with something; who still holds it?"""

from __future__ import annotations

import sys
import weakref
from collections import deque
from collections.abc import Iterator
from types import FrameType
from typing import Any

from gpumemprof import _core
from gpumemprof.holders.found import Holders
from gpumemprof.holders.names import Names
from gpumemprof.holders.reading import class_name, class_values, instance_dict
from gpumemprof.holders.search import find_holders
from gpumemprof.holders.warning import warn_of_leak
from gpumemprof.torch_calls.graphs import StorageLife, tensor_kinds
from gpumemprof.torch_calls.modules import is_module
from gpumemprof.torch_calls.readiness import is_imported

__all__ = ["Expectation", "expect_freed"]

_DEEPEST = 8
_MOST_ITEMS = 100_000
_MODULE_PARTS = ("_parameters", "_buffers", "_modules")


def _parts(thing: Any) -> Iterator[Any]:
    """What is inside a container, a module of torch or an instance."""
    kind = type(thing)
    if issubclass(kind, dict):
        for key, value in list(dict.items(thing)):
            yield key
            yield value
    elif issubclass(kind, (list, tuple, set, frozenset, deque)):
        base = next(one for one in (list, tuple, set, frozenset, deque) if issubclass(kind, one))
        yield from list(base.__iter__(thing))
    elif not issubclass(kind, type):
        attributes = instance_dict(thing) or {}
        names = [name for name in _MODULE_PARTS if name in attributes]
        for name in names or list(attributes):
            yield attributes[name]


def _tensors_in(thing: Any, kinds: set[type]) -> list[Any]:
    found: list[Any] = []
    seen: set[int] = set()
    level = [thing]
    for depth in range(_DEEPEST):
        following: list[Any] = []
        for part in level:
            if id(part) in seen or len(seen) > _MOST_ITEMS:
                continue
            seen.add(id(part))
            if type(part) in kinds:
                found.append(part)
            # An instance that is not a part of a module may lead anywhere.
            elif depth == 0 or _is_container(part):
                following += _parts(part)
        level = following
    return found


def _is_container(thing: Any) -> bool:
    kind = type(thing)
    if issubclass(kind, (list, tuple, set, frozenset, deque, dict)):
        return True
    if "__dataclass_fields__" in class_values(kind):
        return True
    return is_imported() and is_module(thing)


class Expectation:
    """Something that the program is done with, held weakly; made by `expect_freed`.

    >>> expectation = gpumemprof.expect_freed(batch, "after the step", now=False)  # doctest: +SKIP
    >>> del batch  # doctest: +SKIP
    >>> expectation.check()  # doctest: +SKIP
    """

    def __init__(self, thing: Any, label: str) -> None:
        """Use `expect_freed`."""
        self.label = label
        self.what = class_name(type(thing))
        """The class of the object."""
        self.holders = Holders()
        """Who held it when that was last looked up."""
        self._lives: list[StorageLife] = []
        self._thing: Any = None
        kinds = tensor_kinds()[0] if is_imported() else set()
        known = set()
        for tensor in _tensors_in(thing, kinds):
            try:
                life = StorageLife(tensor)
            except Exception:  # It has no memory of its own.
                continue
            if life.address and life.address not in known:
                known.add(life.address)
                self._lives.append(life)
        try:
            self._thing = weakref.ref(thing) if type(thing) not in kinds else None
        except TypeError:
            self._thing = None

    @property
    def bytes(self) -> int:
        """How much of its memory is still allocated."""
        return sum(life.bytes for life in self._lives if not life.is_over())

    @property
    def is_freed(self) -> bool:
        """Whether nothing of it is left."""
        is_gone = self._thing is None or self._thing() is None
        return is_gone and all(life.is_over() for life in self._lives)

    @property
    def held_by(self) -> list[str]:
        """The chains from names in the program to it, as text; empty if no one holds it.

        >>> import torch, gpumemprof, warnings
        >>> cache = [torch.zeros(3)]
        >>> with warnings.catch_warnings(action="ignore"):  # doctest: +SKIP
        ...     gpumemprof.expect_freed(cache[0], "after eval").held_by
        ['cache[0]']
        """
        found = [str(chain) for chain in self.holders.chains]
        if not found and (self.holders.cycle or self.holders.unknown_holder):
            found = [self.holders.text()]
        return found

    def check(self) -> Expectation:
        """Look again, now that the program has dropped it: a warning says who still holds it.

        All names count, also those of the caller.
        """
        self.holders = Holders()
        if not self.is_freed:
            self._look(Names())
            if not self.held_by and not self.is_freed:
                self.holders.unknown_holder = self.holders.text()
        self._warn()
        return self

    def _look(self, names: Names) -> None:
        places = [(life.address, life.bytes) for life in self._lives if not life.is_over()]
        thing = self._thing() if self._thing is not None else None
        targets = [] if thing is None else [thing]
        del thing
        self.holders = find_holders(places, targets, names)

    def _look_for_others(self, caller: FrameType | None, directly: frozenset[int]) -> None:
        self._look(Names(caller, directly))
        if not self.holders.chains and self.holders.cycle is None:
            self.holders.unknown_holder = None  # that is the caller
        self._warn()

    def _warn(self) -> None:
        if self.held_by:
            warn_of_leak(str(self))

    def __str__(self) -> str:
        when = f"{self.label}: " if self.label else ""
        if not self.held_by:
            return f"{when}no one else holds this {self.what}"
        size = f", {_core.format_bytes(self.bytes)}," if self._lives else ""
        held = "; also by ".join(self.held_by)
        held = held if held.startswith("held ") else f"held by {held}"
        return f"{when}this {self.what}{size} is still {held}"

    def __enter__(self) -> Expectation:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.check()


def expect_freed(thing: Any, label: str = "", *, now: bool = True) -> Expectation:
    """Say that the program is done with something; a warning says who else still holds it.

    ::

        gpumemprof.expect_freed(outputs, "after eval")
        del outputs

    What counts is everything but the caller's own variables that name the object (or, for a
    container, one of its items), and the argument itself. So call it where that variable is about
    to be dropped. Afterwards ``check()`` of the result looks again and counts every name; so does
    the end of a ``with`` block::

        with gpumemprof.expect_freed(model, "after eval", now=False):
            ...
            del model

    Args:
        thing: a tensor, a module, any other object, or a list, tuple, set, dict or dataclass with
            tensors.
        label: begins the warning.
        now: look at once; otherwise only ``check()`` does.

    Returns:
        The expectation: ``held_by``, ``is_freed``, ``bytes``, ``check()``. It holds nothing itself.
    """
    expectation = Expectation(thing, label)
    if now:
        caller: FrameType | None = sys._getframe(1)
        directly = frozenset([id(thing), *map(id, _parts(thing))])
        del thing
        expectation._look_for_others(caller, directly)
        del caller
    return expectation
