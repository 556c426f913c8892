"""Walks from blocks to the names that hold them, level by level.

Python's garbage collector is asked which objects refer to the tensors that own a block, then which
refer to those, and so on, with one question a level. What it cannot see is added: autograd's graph
and gradients (`graph`), arrays of NumPy (`arrays`), and the results of asyncio's tasks.
"""

from __future__ import annotations

import atexit
import functools
import gc
import sys
import time
import types
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from gpumemprof.holders.arrays import arrays_over
from gpumemprof.holders.blocks import Blocks
from gpumemprof.holders.chain import Chain, Link, Root, grouped
from gpumemprof.holders.cycles import shown_cycle, way_between
from gpumemprof.holders.graph import Graph, is_made_here
from gpumemprof.holders.links import links_to
from gpumemprof.holders.names import Names
from gpumemprof.holders.reading import class_name, is_own_frame, is_own_type
from gpumemprof.torch_calls import graphs

__all__ = ["Walk"]

_MOST_AT_ONCE = 50
_DEEPEST = 24
_MORE_LEVELS = 2  # after every block has a holder, to find others
_GRAPH_SECONDS = 0.3
# What atexit keeps, out of the garbage collector's sight: a function, and its arguments.
_CALLBACKS = (functools.partial, types.FunctionType, types.MethodType, tuple, dict)


class _Visit:
    """An object that leads to blocks."""

    __slots__ = ("children", "depth", "mask", "thing")

    def __init__(self, thing: Any, depth: int) -> None:
        self.thing = thing
        self.depth = depth
        self.mask = 0
        self.children: list[tuple[int, list[Link], int]] = []
        """(id, how it is held, which blocks); an id of 0: the block itself."""


class Walk:
    """One walk; call `forget` at its end."""

    __slots__ = (
        "_all",
        "_blocks",
        "_cycles",
        "_end",
        "_found",
        "_gradients",
        "_graph",
        "_has_longer_ways",
        "_names",
        "_own",
        "_reached",
        "_sizes",
        "_tasks",
        "_visits",
        "_wanted_blocks",
        "is_whole",
    )

    def __init__(
        self, places: Sequence[tuple[int, int]], count: int, names: Names, most_seconds: float
    ) -> None:
        self._end = time.thread_time() + most_seconds
        self._blocks, self._names = Blocks(places), names
        self._sizes = {number: size for number, (_, size) in enumerate(places)}
        self._all = (1 << count) - 1
        self._reached = 0
        self._visits: dict[int, _Visit] = {}
        self._gradients: dict[int, list[tuple[int, list[Link]]]] = {}
        self._found: list[tuple[Root, int]] = []
        self._cycles: list[tuple[int, int, Link]] = []
        self._graph: Graph | None = None
        self._wanted_blocks = count
        self._has_longer_ways = False
        self._tasks: list[Any] = []
        self._own: set[int] = {id(self._visits), id(self._gradients), id(self._sizes)}
        self.is_whole = True

    def forget(self) -> None:
        """Drop everything at once, also where our own tables came to hold each other."""
        for visit in self._visits.values():
            visit.thing = None
        self._visits.clear()
        self._tasks.clear()
        self._graph = None

    # The objects to start from.

    def start(self, targets: list[tuple[Any, int]]) -> list[_Visit]:
        """The objects that own a block, or are looked for themselves (with their numbers)."""
        _, storage_kinds = graphs.tensor_kinds()
        tensors, makers, nodes, owned = self._scan()
        first: list[_Visit] = []
        for thing, number in targets:
            first.append(self._lead(thing, 0, [], 1 << number, 0))
        # Storages last: most are held by tensors alone.
        for thing, number in sorted(owned, key=lambda one: type(one[0]) in storage_kinds):
            first.append(self._lead(thing, 0, [], 1 << number, 0))
        self._graph = Graph(tensors, makers, nodes, self._blocks.at, _GRAPH_SECONDS)
        self._own.update(map(id, self._graph.own_objects()))
        self.is_whole &= self._graph.is_whole
        self._own.add(id(first))
        self._add_graphs_of_owners()
        return [*{id(visit): visit for visit in first}.values()]

    def _add_graphs_of_owners(self) -> None:
        """A tensor that owns a block may lead to others by its graph: a loss, and what it keeps."""
        for number in range(self._wanted_blocks):
            for tensor, links in self._graph.holders_of_block(number) if self._graph else ():
                known = self._visits.get(id(tensor))
                if known is not None and known.depth == 0 and not known.mask >> number & 1:
                    self._lead(tensor, 0, links, 1 << number, 0)

    def _graph_level(self) -> dict[int, _Visit]:
        """The tensors whose graphs saved a block: one level farther than those that own one."""
        found: dict[int, _Visit] = {}
        for number in range(self._wanted_blocks):
            for tensor, links in self._graph.holders_of_block(number) if self._graph else ():
                known = self._visits.get(id(tensor))
                if known is None or known.depth in (-1, 1):
                    found[id(tensor)] = self._lead(tensor, 0, links, 1 << number, 1)
        return found

    def _scan(self) -> tuple[list[Any], list[Any], list[Any], list[tuple[Any, int]]]:
        """All tensors with a graph, the nodes that made them, all nodes that Python knows, and the
        tensors that own a block.
        """
        kinds, storage_kinds = graphs.tensor_kinds()
        both = kinds | storage_kinds
        task_kind = getattr(sys.modules.get("_asyncio"), "Task", None)
        objects = gc.get_objects()
        things = [thing for thing in objects if type(thing) in both]
        self._tasks = [thing for thing in objects if type(thing) is task_kind]
        node_kinds = graphs.node_kinds(set(map(type, objects)))
        nodes = [thing for thing in objects if type(thing) in node_kinds]
        del objects
        tensors: list[Any] = []
        makers: list[Any] = []
        owned: list[tuple[Any, int]] = []
        gradients: list[Any] = []
        self._own.update(map(id, (things, tensors, makers, nodes, gradients, self._tasks)))
        for thing in things:
            is_storage = type(thing) in storage_kinds
            self._note_owner(thing, is_storage, owned)
            if is_storage:
                continue
            try:
                maker = graphs.graph_of(thing)
                gradient = graphs.gradient_of(thing)
            except Exception:
                continue
            if maker is not None and not is_made_here(thing):
                tensors.append(thing)
                makers.append(maker)
            if gradient is not None:
                gradients.append(gradient)
                way = (id(thing), [Link("attribute", ".grad")])
                self._gradients.setdefault(id(gradient), []).append(way)
                self._visits.setdefault(id(thing), _Visit(thing, -1))
                self._note_owner(gradient, False, owned)
                made_by = graphs.graph_of(gradient)
                if made_by is not None:
                    tensors.append(gradient)
                    makers.append(made_by)
        self._own.update(id(pair) for pair in owned)
        self._own.add(id(owned))
        return tensors, makers, nodes, owned

    def _note_owner(self, thing: Any, is_storage: bool, owned: list[tuple[Any, int]]) -> None:
        address = graphs.address_of(thing, is_storage)
        parts = [address] if address else []
        if not address and not is_storage:
            parts = [graphs.address_of(part) for part in graphs.raw_tensors(thing)]
        for part in parts:
            number = self._blocks.at(part)
            if number is not None:
                owned.append((thing, number))

    def _lead(self, thing: Any, child: int, links: list[Link], mask: int, depth: int) -> _Visit:
        visit = self._visits.get(id(thing))
        if visit is None or visit.depth < 0:
            visit = _Visit(thing, depth)
            self._visits[id(thing)] = visit
        visit.mask |= mask
        visit.children.append((child, links, mask))
        return visit

    # Level by level.

    def run(self, level: list[_Visit]) -> None:
        """Follow the holders until every block has a name."""
        more_levels = _MORE_LEVELS
        for depth in range(1, _DEEPEST):
            self._own.add(id(level))
            for visit in level:
                for root in self._names.of(visit.thing):
                    self._reach(root, visit)
            if self._reached == self._all:
                if more_levels == 0:
                    return
                more_levels -= 1
            if time.thread_time() > self._end:
                self.is_whole = False
                return
            level = self._next_level(level, depth)
            if not level:
                return
        self.is_whole = False

    def _reach(self, root: Root, visit: _Visit) -> None:
        self._found.append((root, id(visit.thing)))
        if root.is_user:
            self._reached |= visit.mask

    def _divided(self, level: list[_Visit]) -> tuple[list[_Visit], list[_Visit]]:
        """So many that one question remains cheap, and the rest, which waits for the next one.

        Each block gets one way to a name before any gets a second.
        """
        if len(level) <= _MOST_AT_ONCE:
            return level, []
        open_ones = [visit for visit in level if visit.mask & ~self._reached]
        chosen: list[_Visit] = []
        others: list[_Visit] = []
        leads = 0
        for visit in open_ones or level:
            if visit.mask & ~leads:
                chosen.append(visit)
                leads |= visit.mask
            else:
                others.append(visit)
        both = [*chosen, *others]
        return both[:_MOST_AT_ONCE], both[_MOST_AT_ONCE:]

    def _next_level(self, level: list[_Visit], depth: int) -> list[_Visit]:
        chosen, waiting = self._divided(level)
        things = [visit.thing for visit in chosen]
        wanted = {id(thing): visit for thing, visit in zip(things, chosen)}
        following = self._graph_level() if depth == 1 else {}
        for visit in chosen:
            for holder, links in self._graph.holders_of(visit.thing) if self._graph else ():
                self._follow(holder, [(id(visit.thing), links)], wanted, following, depth)
            for number, links in self._gradients.get(id(visit.thing), ()):
                holder = self._visits[number].thing
                self._follow(holder, [(id(visit.thing), links)], wanted, following, depth)
        holders = gc.get_referrers(*things) if things else []
        # Those of asyncio do not say what their results are when asked who refers to these.
        holders += [
            task
            for task in self._tasks
            if any(id(thing) in wanted for thing in gc.get_referents(task))
        ]
        own = {*self._own, id(things), id(wanted), id(chosen), id(level), id(holders)}
        own.update((id(following), id(waiting), id(sys._getframe())))
        for holder in holders:
            if id(holder) in own or self._is_ours(holder):
                continue
            if type(holder) is dict:
                space = self._names.namespace(holder)
                if space is not None:
                    for number, root in self._names.globals_holding(holder, space, wanted):
                        self._reach(root, wanted[number])
                    continue
            ways = [(number, [link]) for number, link in links_to(holder, wanted)]
            self._follow(holder, ways, wanted, following, depth)
        self._follow_arrays(chosen, wanted, following, depth)
        self._follow_longer_ways()
        return [*following.values(), *waiting]

    def _follow_arrays(
        self,
        chosen: list[_Visit],
        wanted: dict[int, _Visit],
        following: dict[int, _Visit],
        depth: int,
    ) -> None:
        """Tensors that nothing else holds may be the memory of arrays."""
        kinds, _ = graphs.tensor_kinds()
        held = {child for visit in following.values() for child, _, _ in visit.children}
        open_ones = {
            id(visit.thing)
            for visit in chosen
            if type(visit.thing) in kinds
            and visit.mask & ~self._reached
            and id(visit.thing) not in held
        }
        if open_ones and time.thread_time() < self._end:
            for array, number, links in arrays_over(open_ones):
                self._follow(array, [(number, links)], wanted, following, depth)

    def _follow_longer_ways(self) -> None:
        """What leads to an object leads to all that this has come to lead to.

        An object that does not lead to a block yet is on no way to it, so no way becomes a circle.
        """
        while self._has_longer_ways:
            self._has_longer_ways = False
            for visit in self._visits.values():
                for child, links, _ in list(visit.children):
                    new = self._visits[child].mask & ~visit.mask if child else 0
                    if new:
                        visit.children.append((child, links, new))
                        visit.mask |= new
                        self._has_longer_ways = True
        for root, number in self._found:
            if root.is_user:
                self._reached |= self._visits[number].mask

    def _is_ours(self, holder: Any) -> bool:
        kind = type(holder)
        if kind is types.FrameType:
            return is_own_frame(holder) or id(holder) in self._names.frames
        return kind is _Visit or kind is types.ModuleType or is_own_type(kind)

    def _follow(
        self,
        holder: Any,
        links: list[tuple[int, list[Link]]],
        wanted: dict[int, _Visit],
        following: dict[int, _Visit],
        depth: int,
    ) -> None:
        known = self._visits.get(id(holder))
        is_new = known is None or known.depth < 0
        for number, way in links:
            child = wanted.get(number)
            if child is None:
                continue
            if child.thing is holder:
                self._cycles.append((id(holder), number, way[0]))
                continue
            if not is_new and known is not None and known.depth != depth:
                self._cycles.append((id(holder), number, way[0]))
                # Blocks that it did not lead to yet: it is no cycle, but a longer way to them.
                if new := child.mask & ~known.mask:
                    self._lead(holder, number, way, new, known.depth)
                    self._has_longer_ways = True
                continue
            if issubclass(type(holder), type):
                self._hold_in_class(holder, child, way)
                continue
            following[id(holder)] = self._lead(holder, number, way, child.mask, depth)

    def _hold_in_class(self, kind: Any, child: _Visit, way: list[Link]) -> None:
        """A class is a name itself."""
        visit = self._lead(kind, id(child.thing), way, child.mask, child.depth + 1)
        self._reach(self._names.class_root(kind), visit)

    def add_hooks_of_nodes(self) -> None:
        """Dicts of hooks that nothing in Python holds belong to nodes of the graph.

        Which node it is cannot be asked.
        """
        held = {child for visit in self._visits.values() for child, _, _ in visit.children}
        held.update(child for _, child, _ in self._cycles)
        for visit in list(self._visits.values()):
            if not visit.mask & ~self._reached or type(visit.thing) is not OrderedDict:
                continue
            if id(visit.thing) in held:
                continue
            keys = list(dict.keys(visit.thing))
            if keys and all(type(key) is int for key in keys):
                self._reach(Root("a hook on a node of autograd's graph", "", True, "other"), visit)

    # What was found.

    def _way_to(self, number: int, block: int) -> list[Link]:
        """The links from an object to a block."""
        links: list[Link] = []
        for _ in range(2 * _DEEPEST):
            visit = self._visits[number]
            child, way, _ = next(
                entry for entry in visit.children if entry[2] & block and entry[0] != number
            )
            links += way
            if child == 0:
                break
            number = child
        return links

    def chains(self) -> list[Chain]:
        """All chains, grouped; of several ways to one container, the first comes first."""
        found: list[Chain] = []
        taken: dict[tuple[int, int], tuple[object, ...]] = {}
        for root, number in sorted(self._found, key=self._rank):
            visit = self._visits[number]
            remaining = visit.mask
            while remaining:
                block = remaining & -remaining
                remaining ^= block
                links = self._way_to(number, block)
                key = (
                    root.text,
                    root.note,
                    tuple(link[:2] for link in links if link.number is None),
                )
                holder = self._before(number, block)
                is_alias = holder is not None and taken.setdefault((block, holder), key) != key
                size = self._sizes.get(block.bit_length() - 1, 0)
                found.append(Chain(root, links, is_alias, bytes=size))
        return grouped(found)

    def _rank(self, found: tuple[Root, int]) -> tuple[bool, float, int]:
        """The nearest name first; of those, one that lasts: a global, then an outer function's."""
        root, number = found
        nearness = self._visits[number].depth + (0.5 if root.depth else 0.0)
        return not root.is_user, nearness, root.depth

    def _before(self, number: int, block: int) -> int | None:
        """What directly holds the owner of a block on this way; None if it is the owner itself."""
        before = None
        for _ in range(2 * _DEEPEST):
            visit = self._visits[number]
            child = next(e[0] for e in visit.children if e[2] & block and e[0] != number)
            if child == 0:
                break
            before, number = number, child
        return before

    def leave_out(self, *things: Any) -> None:
        """These are not the program's."""
        self._own.update(map(id, things))

    def seen(self) -> int:
        """The blocks that any object leads to."""
        mask = 0
        for visit in self._visits.values():
            mask |= visit.mask
        return mask

    def reached(self) -> int:
        """The blocks that a name leads to."""
        mask = 0
        for _, number in self._found:
            mask |= self._visits[number].mask
        return mask

    def cycle(self, unheld: int) -> str | None:
        """A cycle among the holders of blocks that no name holds."""
        for holder, child, link in self._cycles:
            visit = self._visits.get(child)
            if visit is None or not visit.mask & unheld:
                continue
            way = way_between(self._visits, child, holder)
            if way is not None:
                things = {number: self._visits[number].thing for number, _ in way}
                return shown_cycle(
                    [(self._visits[holder].thing, [link])]
                    + [(things[number], links) for number, links in way]
                )
        return None

    def unknown(self, unheld: int) -> str:
        """What is farthest from the blocks that no name holds."""
        farthest: _Visit | None = None
        for visit in self._visits.values():
            if visit.mask & unheld and (farthest is None or visit.depth > farthest.depth):
                farthest = visit
        if farthest is None:
            return "held outside Python: no Python object that owns this memory was found"
        name = class_name(type(farthest.thing))
        where = "in use by C++ code"
        callbacks = atexit._ncallbacks()
        if callbacks >= bin(unheld).count("1") and issubclass(type(farthest.thing), _CALLBACKS):
            where = f"one of the {callbacks:,} callbacks of atexit, or {where}"
        return f"held by a {name} that no name in Python leads to: it may be {where}"
