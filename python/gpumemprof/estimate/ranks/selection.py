"""Which ranks are predicted, if not all."""

from __future__ import annotations

__all__ = ["MAX_PER_NODE", "MOST_BY_DEFAULT", "flags_for", "usual_ranks"]

MOST_BY_DEFAULT = 8
MAX_PER_NODE = 8
"""Torch simulates so many cards of a machine, and aborts at the next one."""


def flags_for(size: int) -> str:
    """The flags that predict a world of so many ranks, on as few machines as can be.

    >>> flags_for(8), flags_for(16)
    ('--nproc 8', '--nproc 8 --nnodes 2')
    """
    per_node = next(count for count in range(MAX_PER_NODE, 0, -1) if size % count == 0)
    nodes = size // per_node
    return f"--nproc {per_node}" + (f" --nnodes {nodes}" if nodes > 1 else "")


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
