"""Arrays of NumPy that share a tensor's memory: the garbage collector does not know them."""

from __future__ import annotations

import gc
import sys
from collections.abc import Container
from typing import Any

from gpumemprof.holders.chain import Link
from gpumemprof.holders.reading import class_values

__all__ = ["arrays_over"]

_MOST_VIEWS = 8


def arrays_over(wanted: Container[int]) -> list[tuple[Any, int, list[Link]]]:
    """The arrays over these tensors, given by their ids: with the tensor's id, and the way to it.

    Every container is read once for it, so it is asked only if nothing else holds a tensor. An
    array that is only a variable of a function is not found.
    """
    kind = getattr(sys.modules.get("numpy"), "ndarray", None)
    if not isinstance(kind, type):
        return []
    base_of = class_values(kind)["base"].__get__
    found: list[tuple[Any, int, list[Link]]] = []
    seen: set[int] = set()
    for thing in gc.get_referents(*gc.get_objects()):
        if type(thing) is not kind or id(thing) in seen:
            continue
        seen.add(id(thing))
        links, base = [Link("attribute", ".base")], base_of(thing)
        while type(base) is kind and len(links) < _MOST_VIEWS:
            links.append(Link("attribute", ".base"))
            base = base_of(base)
        if id(base) in wanted:
            found.append((thing, id(base), links))
    return found
