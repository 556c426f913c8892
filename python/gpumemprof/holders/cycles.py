"""Reference cycles that no name holds: only the garbage collector frees them."""

from __future__ import annotations

import types
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Protocol

from gpumemprof.holders.chain import Chain, Link, Root
from gpumemprof.holders.links import function_name
from gpumemprof.holders.reading import class_name

__all__ = ["shown_cycle", "way_between"]

_PLAIN = (
    tuple,
    list,
    dict,
    OrderedDict,
    types.CellType,
    types.MethodType,
    types.FrameType,
    types.TracebackType,
)


class _Holding(Protocol):
    children: list[tuple[int, list[Link], int]]
    """(id, how it is held, which blocks)"""


def way_between(
    holding: Mapping[int, _Holding], start: int, end: int
) -> list[tuple[int, list[Link]]] | None:
    """The shortest way from an object to one that it holds: each object, and how it holds."""
    ways: dict[int, list[tuple[int, list[Link]]]] = {start: []}
    level = [start]
    while level and end not in ways:
        following = []
        for number in level:
            for child, links, _ in holding[number].children:
                if child and child not in ways:
                    ways[child] = [*ways[number], (number, links)]
                    following.append(child)
        level = following
    return ways.get(end)


def shown_cycle(way: list[tuple[Any, list[Link]]]) -> str:
    """Beginning with what a reader knows: an object or a function, not a tuple or a cell."""
    start = next((place for place, (thing, _) in enumerate(way) if type(thing) not in _PLAIN), 0)
    first = way[start][0]
    is_function = type(first) is types.FunctionType
    name = function_name(first.__code__) if is_function else class_name(type(first))
    links = [link for _, links in [*way[start:], *way[:start]] for link in links]
    return f"{Chain(Root(name, kind='other'), links)} → {name}"
