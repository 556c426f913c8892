"""Which tensors keep memory through autograd's graph, where the garbage collector sees nothing.

The graph is walked from all tensors that Python knows, and then searched from its top nodes: those
that no other node leads to are held by something outside of the graph, such as a list of losses.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from gpumemprof.holders.chain import Link
from gpumemprof.holders.reading import class_name
from gpumemprof.torch_calls.graphs import address_of, kept_by, next_nodes, tensor_kinds

__all__ = ["Graph"]

_MOST_NODES = 200_000
_MOST_TOPS_PER_NODE = 3

Holder = tuple[Any, list[Link]]
"""A tensor, and how it holds what was asked for."""


class Graph:
    """Everything found is valid only as long as this object lives; it keeps the nodes alive."""

    __slots__ = (
        "_kept_by",
        "_kept_objects",
        "_next",
        "_nodes",
        "_reached",
        "_saving",
        "_tensors",
        "is_whole",
    )

    def __init__(
        self,
        tensors: list[Any],
        makers: list[Any],
        block_at: Callable[[int], int | None],
        most_seconds: float,
    ) -> None:
        """Walk the graphs of some tensors.

        Args:
            tensors: those that Python knows and autograd made.
            makers: the node that made each.
            block_at: the number of the block that contains an address, if it is of interest.
            most_seconds: of CPU time; then the walk ends where it is.
        """
        self._nodes: dict[int, Any] = {}
        self._next: dict[int, list[int]] = {}
        self._saving: dict[int, list[tuple[str, int]]] = {}  # block → (name, node)
        # Objects are held by these few containers alone, so that the search can tell them from the
        # program's own; everything else refers to them by number.
        self._tensors = tensors
        self._kept_objects: dict[int, Any] = {}
        self._kept_by: dict[int, tuple[str, int]] = {}  # object → (name, node)
        self._reached: dict[int, list[tuple[int, int]]] = {}  # node → (node before, tensor)
        self.is_whole = True
        self._walk(makers, block_at, most_seconds)
        self._reach([id(node) for node in makers])

    def _walk(
        self, nodes: list[Any], block_at: Callable[[int], int | None], most_seconds: float
    ) -> None:
        end = time.thread_time() + most_seconds
        tensors, _ = tensor_kinds()
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
                    block = block_at(address_of(value))
                    if block is not None:
                        self._saving.setdefault(block, []).append((name, number))
            waiting = found

    def _reach(self, makers: list[int]) -> None:
        """From the tensors whose nodes nothing leads to, breadth first."""
        led_to = {number for numbers in self._next.values() for number in numbers}
        waiting = []
        for tensor, number in enumerate(makers):
            if number not in led_to and number in self._nodes and self._note(number, 0, tensor):
                waiting.append((number, tensor))
        while waiting:
            found = []
            for number, tensor in waiting:
                found += [
                    (other, tensor)
                    for other in self._next.get(number, ())
                    if other in self._nodes and self._note(other, number, tensor)
                ]
            waiting = found

    def _note(self, number: int, before: int, tensor: int) -> bool:
        ways = self._reached.setdefault(number, [])
        if len(ways) >= _MOST_TOPS_PER_NODE or any(known == tensor for _, known in ways):
            return False
        ways.append((before, tensor))
        return True

    def _way(self, number: int, tensor: int) -> list[Link]:
        """From the tensor to the node."""
        names = []
        while number:
            names.append(class_name(type(self._nodes[number])))
            number = next(before for before, known in self._reached[number] if known == tensor)
        links = [Link("node", name) for name in reversed(names)]
        return [Link("attribute", ".grad_fn"), *links]

    def _holders(self, number: int, name: str) -> list[Holder]:
        found = []
        for _, tensor in self._reached.get(number, ()):
            links = self._way(number, tensor)
            if name:
                links.append(Link("attribute", f".{name}"))
            found.append((self._tensors[tensor], links))
        return found

    def holders_of_block(self, block: int) -> list[Holder]:
        """The tensors whose graphs saved this block, nearest first."""
        found: list[Holder] = []
        for name, number in self._saving.get(block, ()):
            for tensor, links in self._holders(number, name):
                if not any(known is tensor for known, _ in found):
                    found.append((tensor, links))
        found.sort(key=lambda holder: len(holder[1]))
        return found

    def holders_of(self, thing: Any) -> list[Holder]:
        """The tensors whose graphs hold a node, or an object that a node keeps."""
        if id(thing) in self._nodes:
            return self._holders(id(thing), "")
        kept = self._kept_by.get(id(thing))
        return [] if kept is None else self._holders(kept[1], kept[0])

    def own_objects(self) -> list[Any]:
        """What holds the objects, and is no one's holder."""
        return [self._nodes, self._kept_objects, self._tensors]
