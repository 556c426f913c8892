"""Which tensors keep memory through autograd's graph, where the garbage collector sees nothing.

The graph is walked from all tensors and nodes that Python knows, and then searched from its top
nodes: those that no other node leads to are held by something outside of the graph, such as a list
of losses.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterable
from typing import Any

from gpumemprof.holders.chain import Link
from gpumemprof.holders.reading import class_name
from gpumemprof.torch_calls.graphs import (
    address_of,
    graph_of,
    kept_by,
    next_nodes,
    tensor_kinds,
)

__all__ = ["Graph", "is_made_here"]

_MOST_NODES = 200_000
_MOST_TOPS_PER_NODE = 3

Holder = tuple[Any, list[Link]]
"""A tensor or a node, and how it holds what was asked for."""


class _MadeHere:
    """The Python objects of tensors that only C++ knew until a search looked at them.

    They live on with their memory. No name of the program leads to them, but they look as if they
    held the graphs that made them.
    """

    def __init__(self) -> None:
        self._references: dict[int, weakref.ref[Any]] = {}

    def add(self, tensor: Any) -> None:
        self._references[id(tensor)] = weakref.ref(tensor)

    def __contains__(self, tensor: Any) -> bool:
        reference = self._references.get(id(tensor))
        return reference is not None and reference() is tensor

    def forget_freed(self) -> None:
        gone = [number for number, kept in self._references.items() if kept() is None]
        for number in gone:
            del self._references[number]


_made_here = _MadeHere()


def is_made_here(tensor: Any) -> bool:
    """Whether a tensor has a Python object only because a search looked at it."""
    return tensor in _made_here


class Graph:
    """Everything found is valid only as long as this object lives; it keeps the nodes alive."""

    __slots__ = (
        "_kept_by",
        "_kept_objects",
        "_next",
        "_nodes",
        "_reached",
        "_saving",
        "_starts",
        "is_whole",
    )

    def __init__(
        self,
        tensors: list[Any],
        makers: list[Any],
        nodes: list[Any],
        block_at: Callable[[int], int | None],
        most_seconds: float,
    ) -> None:
        """Walk the graphs of some tensors and nodes.

        Args:
            tensors: those that Python knows and autograd made.
            makers: the node that made each.
            nodes: those that Python knows, and may hold: as the context of a function does.
            block_at: the number of the block that contains an address, if it is of interest.
            most_seconds: of CPU time; then the walk ends where it is.
        """
        self._nodes: dict[int, Any] = {}
        self._next: dict[int, list[int]] = {}
        self._saving: dict[int, list[tuple[str, int]]] = {}  # block → (name, node)
        # Objects are held by these few containers alone, so that the search can tell them from the
        # program's own; everything else refers to them by number.
        self._starts = [*tensors, *nodes]
        self._kept_objects: dict[int, Any] = {}
        self._kept_by: dict[int, tuple[str, int]] = {}  # object → (name, node)
        self._reached: dict[int, list[tuple[int, int]]] = {}  # node → (node before, start)
        self.is_whole = True
        _made_here.forget_freed()
        self._walk([*makers, *nodes], block_at, most_seconds)
        self._reach_from_tensors([id(node) for node in makers])
        self._reach_from_nodes(len(tensors))

    def _walk(
        self, nodes: list[Any], block_at: Callable[[int], int | None], most_seconds: float
    ) -> None:
        end = time.thread_time() + most_seconds
        tensors, _ = tensor_kinds()
        known = set(map(id, self._starts))
        waiting = nodes
        while waiting:
            found: list[Any] = []
            for node in waiting:
                number = id(node)
                if number in self._nodes:
                    continue
                if len(self._nodes) >= _MOST_NODES or time.thread_time() > end:
                    self.is_whole = False
                    return
                self._nodes[number] = node
                following = next_nodes(node)
                self._next[number] = [id(other) for other in following]
                found += following
                for name, value in kept_by(node):
                    if type(value) not in tensors:
                        # What a hook of the program packed.
                        self._kept_objects[id(value)] = value
                        self._kept_by[id(value)] = (name, number)
                        continue
                    if id(value) not in known and graph_of(value) is not None:
                        _made_here.add(value)
                    block = block_at(address_of(value))
                    if block is not None:
                        self._saving.setdefault(block, []).append((name, number))
            waiting = found

    def _reach_from_tensors(self, makers: list[int]) -> None:
        """From the tensors whose nodes nothing leads to."""
        led_to = {number for numbers in self._next.values() for number in numbers}
        self._reach((number, start) for start, number in enumerate(makers) if number not in led_to)

    def _reach_from_nodes(self, first: int) -> None:
        """What no tensor leads to, from the nodes that Python knows: the starts from this one on.

        Most of these are a part of a graph that a tensor holds, and no one holds them by name.
        """
        numbers = [(id(node), first + rank) for rank, node in enumerate(self._starts[first:])]
        self._reach([pair for pair in numbers if pair[0] not in self._reached])

    def _reach(self, starts: Iterable[tuple[int, int]]) -> None:
        """Breadth first, from these (node, start)."""
        waiting = [
            (number, start)
            for number, start in starts
            if number in self._nodes and self._note(number, 0, start)
        ]
        while waiting:
            found = []
            for number, start in waiting:
                found += [
                    (other, start)
                    for other in self._next.get(number, ())
                    if other in self._nodes and self._note(other, number, start)
                ]
            waiting = found

    def _note(self, number: int, before: int, start: int) -> bool:
        ways = self._reached.setdefault(number, [])
        if len(ways) >= _MOST_TOPS_PER_NODE or any(known == start for _, known in ways):
            return False
        ways.append((before, start))
        return True

    def _way(self, number: int, start: int) -> list[Link]:
        """From a tensor or a node to the node."""
        names = []
        while number:
            names.append(class_name(type(self._nodes[number])))
            first = number
            number = next(before for before, known in self._reached[number] if known == start)
        links = [Link("node", name) for name in reversed(names)]
        if self._nodes[first] is self._starts[start]:
            return links[1:]
        return [Link("attribute", ".grad_fn"), *links]

    def _holders(self, number: int, name: str) -> list[Holder]:
        found = []
        for _, start in self._reached.get(number, ()):
            links = self._way(number, start)
            if name:
                links.append(Link("attribute", f".{name}"))
            if links:  # Otherwise it is the node itself.
                found.append((self._starts[start], links))
        return found

    def holders_of_block(self, block: int) -> list[Holder]:
        """What holds the graphs that saved this block, nearest first."""
        found: list[Holder] = []
        for name, number in self._saving.get(block, ()):
            for tensor, links in self._holders(number, name):
                if not any(known is tensor for known, _ in found):
                    found.append((tensor, links))
        found.sort(key=lambda holder: len(holder[1]))
        return found

    def holders_of(self, thing: Any) -> list[Holder]:
        """What holds the graphs of a node, or of an object that a node keeps."""
        if id(thing) in self._nodes:
            return self._holders(id(thing), "")
        kept = self._kept_by.get(id(thing))
        return [] if kept is None else self._holders(kept[1], kept[0])

    def own_objects(self) -> list[Any]:
        """What holds the objects, and is no one's holder."""
        return [self._nodes, self._kept_objects, self._starts]
