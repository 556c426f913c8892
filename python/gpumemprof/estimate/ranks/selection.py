"""Which ranks are predicted, if not all."""

from __future__ import annotations

__all__ = ["MOST_BY_DEFAULT", "usual_ranks"]

MOST_BY_DEFAULT = 8


def usual_ranks(per_node: int, nodes: int) -> list[int]:
    """All ranks of a small world; of a larger one those that can differ.

    The first rank often does more than the others. Where something cannot be divided evenly, the
    last rank along a dimension of the mesh has less, or none: so the first two ranks, the last one
    of the first node, and the first and the last one of the last node.

    >>> usual_ranks(4, 1), usual_ranks(8, 128)
    ([0, 1, 2, 3], [0, 1, 7, 1016, 1023])
    """
    size = per_node * nodes
    if size <= MOST_BY_DEFAULT:
        return list(range(size))
    return sorted({0, 1, per_node - 1, size - per_node, size - 1})
