"""Whether cuDNN would take an algorithm that it offers only where there is a GPU, and which one.

cuDNN's heuristics put all algorithms into an order. Without a GPU some are missing, so that another
one comes first. Decision trees say whether one of the missing ones would be before it; they were
fitted to cuDNN's choices on an H200 by `tests/device/estimate_cases/conv_choice.py`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gpumemprof.estimate.rules.convolution.computed import Computed, as_computed
from gpumemprof.estimate.rules.convolution.cudnn import Plan, Settings
from gpumemprof.estimate.rules.convolution.gpu_engines import (
    LISTED,
    PRODUCT,
    SINGLE_BYTES,
    engine_bytes,
    is_one_product,
    is_possible,
)
from gpumemprof.estimate.rules.convolution.shape import DTYPE_NAMES, Convolution, Kind
from gpumemprof.estimate.rules.convolution.shipped import shipped_json

__all__ = ["CAPABILITY", "LEAF", "Choice", "choose", "features", "result_elements"]

CAPABILITY = (9, 0)
"""Of the card that the trees were fitted to."""
TYPES = tuple(DTYPE_NAMES.values())
LEAF = -1


@dataclass(frozen=True)
class Choice:
    """What cuDNN takes on a GPU: its workspace, and that of the second most likely algorithm."""

    size_bytes: int
    other_bytes: int
    share: float  # of the choices that were alike on an H200


def _log(number: float) -> float:
    return round(math.log2(number), 3)


def _bits(number: int) -> int:
    """How often a number can be halved, at most six times."""
    return (min(64, number & -number)).bit_length() - 1


def features(convolution: Convolution, kind: Kind, plan: Plan, settings: Settings) -> list[float]:
    """What cuDNN's order of algorithms may depend on, and what it would take without a GPU."""
    each = as_computed(convolution, kind)
    here, there = math.prod(each.image), math.prod(each.output_image)
    tensors = (each.input_elements + each.output_elements) * each.element_bytes
    kernel = math.prod(each.kernel)
    return [
        _log(each.batch),
        _log(each.channels),
        _log(each.outputs),
        _log(here),
        _log(there),
        _bits(each.channels),
        _bits(each.outputs),
        _bits(here),
        each.image[-1],
        each.output_image[-1],
        TYPES.index(DTYPE_NAMES[convolution.dtype]),
        each.is_channels_last,
        len(each.image),
        _log(each.batch * here),
        _log(each.channels * each.outputs / each.groups),
        _log(here / (each.channels * each.outputs)),
        _log(max(each.channels, each.outputs)),
        _log(min(each.channels, each.outputs)),
        _log(each.channels / each.outputs),
        kernel,
        each.kernel[-1],
        max(convolution.stride),
        max(convolution.dilation),
        max(each.padding),
        _log(each.groups),
        each.groups == each.channels == each.outputs,
        each.channels // each.groups,
        _log(each.batch * there * kernel * each.channels * each.outputs / each.groups),
        plan.engine,
        _log(1 + plan.workspace_bytes),
        round(plan.workspace_bytes / tensors, 3),
        plan.knobs.get(2, -1),
        plan.knobs.get(27, -1),
        plan.knobs.get(28, -1),
        settings.allows_tf32,
        settings.is_deterministic,
    ]


@functools.cache
def _forests() -> dict[str, Any]:
    return shipped_json("conv_choice")


def _leaf(tree: Sequence[Any], row: Sequence[float]) -> tuple[Any, float]:
    """A node is a feature, its limit and the node above the limit; the one below comes next."""
    node = 0
    while True:
        feature, limit, above = tree[3 * node : 3 * node + 3]
        if feature == LEAF:
            return limit, above
        node = node + 1 if row[feature] <= limit else above


def result_elements(computed: Computed) -> int:
    return {
        "forward": computed.output_elements,
        "data": computed.input_elements,
        "weight": computed.kernel_elements,
    }[computed.kind]


def choose(
    convolution: Convolution, kind: Kind, plan: Plan, settings: Settings, plan_bytes: int
) -> Choice:
    """Whether an algorithm that only a GPU offers would be taken rather than `plan`."""
    computed = as_computed(convolution, kind)
    row = features(convolution, kind, plan, settings)
    votes: dict[str, float] = {}
    forest = _forests()[computed.kind]
    for tree in forest["choices"]:
        index, share = _leaf(tree, row)
        name = forest["names"][index]
        name = name if is_possible(name, convolution) else LISTED
        votes[name] = votes.get(name, 0.0) + share
    names = sorted(votes, key=votes.__getitem__, reverse=True)

    def size_bytes(name: str) -> int:
        if name == LISTED:
            return plan_bytes
        if name == PRODUCT and is_one_product(computed):
            [sizes] = forest["sizes"]
            parts, _ = _leaf(sizes, row)
            return int(parts * result_elements(computed) * SINGLE_BYTES)
        return engine_bytes(name, computed)

    other = names[1] if len(names) > 1 else LISTED
    share = votes[names[0]] / len(forest["choices"])
    return Choice(size_bytes(names[0]), size_bytes(other), share)
