"""Who is compared with whom: ranks that do the same work, by their places in the mesh.

The stages of a pipeline differ by design and are never compared. Ranks that differ only in a
data-parallel dimension are always compared. Those that differ in another dimension (tensor,
context, experts) are kept apart while groups stay large enough, and compared where they would not.

Without a mesh, ranks that hold the same bytes of parameters are one group: what else they hold is
then work, not design.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpumemprof.ranks.compare.statistics import FEWEST
from gpumemprof.ranks.summary import RankSummary

__all__ = ["Group", "Grouping", "dimension_kind", "find_groups"]

_PIPELINE = ("pp", "pipe", "pipeline", "stage", "pipeline_parallel")
_DATA_PARTS = ("dp", "data", "fsdp", "replicate", "shard", "batch", "hsdp")
# Parameters that differ by less are alike: shards are rounded.
_LEAST_GAP_SHARE = 0.10
_LEAST_GAP_BYTES = 1 << 20

Key = tuple[tuple[str, int], ...]


@dataclass
class Group:
    """Ranks that are compared with each other."""

    key: Key
    """Dimensions and coordinates that all of them share."""
    name: str
    ranks: list[RankSummary]


@dataclass
class Grouping:
    """All groups of a job, and the sentence that says why these."""

    groups: list[Group]
    dimensions: tuple[str, ...]
    """The dimensions that keep groups apart."""
    compared: tuple[str, ...]
    """Other dimensions of the mesh, over which ranks are compared."""
    basis: str
    """``mesh``, ``parameters`` or ``none``."""
    sentence: str

    def of(self, rank: RankSummary) -> Group:
        """The group of a rank."""
        return next(group for group in self.groups if any(one is rank for one in group.ranks))


def dimension_kind(name: str) -> str:
    """What a dimension of a mesh is for, by its name: ``pipeline``, ``data`` or ``model``.

    >>> [dimension_kind(name) for name in ("pp", "dp_shard", "tp", "ep", "fsdp")]
    ['pipeline', 'data', 'model', 'model', 'data']
    """
    low = name.lower()
    if low in _PIPELINE:
        return "pipeline"
    return "data" if any(part in low for part in _DATA_PARTS) else "model"


def find_groups(ranks: Sequence[RankSummary]) -> Grouping:
    """The groups of a job's ranks."""
    names: dict[str, int] = {}
    for one in ranks:
        for dimension in one.mesh:
            size = dimension.size if dimension.size is not None else dimension.coordinate + 1
            names[dimension.name] = max(names.get(dimension.name, 1), size)
    used = [name for name, size in names.items() if size > 1]
    if not used:
        return _by_parameters(ranks)
    apart = [name for name in used if dimension_kind(name) == "pipeline"]
    droppable = [name for name in used if dimension_kind(name) == "model"]
    while droppable and not _are_large(_split(ranks, [*apart, *droppable])):
        # Experts before contexts before tensors: meshes name the innermost last, experts apart.
        droppable.remove(_next_dropped(droppable))
    chosen = [name for name in used if name in apart or name in droppable]
    groups = _split(ranks, chosen)
    compared = tuple(name for name in used if name not in chosen)
    return Grouping(groups, tuple(chosen), compared, "mesh", _mesh_sentence(chosen, compared))


def _next_dropped(names: list[str]) -> str:
    experts = [name for name in names if name.lower().startswith(("e", "moe"))]
    return experts[-1] if experts else names[-1]


def _are_large(groups: list[Group]) -> bool:
    sizes = sorted(len(group.ranks) for group in groups)
    return sizes[len(sizes) // 2] >= FEWEST


def _split(ranks: Sequence[RankSummary], names: Sequence[str]) -> list[Group]:
    by_key: dict[Key, list[RankSummary]] = {}
    for one in ranks:
        places = {dimension.name: dimension.coordinate for dimension in one.mesh}
        key = tuple((name, places.get(name, -1)) for name in names)
        by_key.setdefault(key, []).append(one)
    return [Group(key, _name(key), by_key[key]) for key in sorted(by_key)]


def _name(key: Key) -> str:
    if not key:
        return "all ranks"
    if any(place == -1 for _, place in key):
        return "no place in the mesh"
    return " · ".join(f"{name} {place}" for name, place in key)


def _mesh_sentence(apart: Sequence[str], compared: Sequence[str]) -> str:
    if not apart:
        return f"Ranks that differ in {', '.join(compared)} are compared with each other."
    same = f"the same {', '.join(apart)}"
    if not compared:
        return f"No two ranks have {same}, so none are compared with each other."
    return f"Ranks with {same} are compared with each other; they differ in {', '.join(compared)}."


def _by_parameters(ranks: Sequence[RankSummary]) -> Grouping:
    held = [(one.most_by_source.get("parameters", 0), one) for one in ranks]
    ordered = sorted(held, key=lambda entry: (entry[0], entry[1].number))
    parts: list[list[tuple[int, RankSummary]]] = []
    for entry in ordered:
        before = parts[-1][-1][0] if parts else 0
        gap = entry[0] - before
        if not parts or gap > max(_LEAST_GAP_SHARE * entry[0], _LEAST_GAP_BYTES):
            parts.append([])
        parts[-1].append(entry)
    if len(parts) == 1:
        is_known = any(held_bytes for held_bytes, _ in held)
        what = ", and hold about the same bytes of parameters" if is_known else " or parameters"
        sentence = f"The ranks say nothing about a mesh{what}: all are compared with each other."
        basis = "parameters" if is_known else "none"
        return Grouping([Group((), "all ranks", list(ranks))], (), (), basis, sentence)
    groups = [
        Group(
            (("parameters", number),),
            f"parameters {number}",
            sorted((one for _, one in part), key=lambda one: one.number),
        )
        for number, part in enumerate(parts)
    ]
    sentence = (
        f"The ranks say nothing about a mesh, but hold {len(parts)} different amounts of "
        "parameters, like stages of a pipeline: only ranks with the same amount are compared. A "
        "rank with parameters that it should not have would look the same."
    )
    return Grouping(groups, (), (), "parameters", sentence)
