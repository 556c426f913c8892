"""Activations: nothing is known of these tensors, and so of what follows from them.

Most operations of a program are of this kind, and asking each rule about them takes longer than
finding the shapes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from gpumemprof.estimate.engine.operation import Operation
from gpumemprof.estimate.engine.random_draws import is_random
from gpumemprof.estimate.engine.recipes.operations import USES_SHAPE_ALONE
from gpumemprof.estimate.engine.shapes.assumed import ASSUMPTIONS
from gpumemprof.estimate.engine.shapes.marks import NOTED_OF_UNKNOWN
from gpumemprof.estimate.engine.shapes.shares import FOUND_OF_UNKNOWN

__all__ = ["are_blank", "passes_on"]

# What the engine keeps with a tensor of which it knows something.
_KNOWLEDGE = frozenset(
    (
        "_assumed",
        "_draft",
        "_hint",
        "_is_distinct",
        "_is_usual",
        "_known_value",
        "_marks",
        "_part_of_sums",
        "_places",
        "_recipe",
        "_selects",
        "_was_read",
    )
)


def passes_on(op: Operation) -> bool:
    """Whether all that is known of its results follows from what is known of its arguments."""
    if op.passes_on is None:
        op.passes_on = not (
            op.writes
            or op.has_out
            or op.is_empty_factory
            or is_random(op)
            or op.name in USES_SHAPE_ALONE
            or op.name in ASSUMPTIONS
            or op.name in NOTED_OF_UNKNOWN
            or op.name in FOUND_OF_UNKNOWN
        )
    return op.passes_on


def are_blank(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether there are tensors among the arguments, and nothing is known of any of them."""
    found = False
    for value in args:
        if isinstance(value, FakeTensor):
            if value.constant is not None or not _KNOWLEDGE.isdisjoint(value.__dict__):
                return False
            found = True
        elif isinstance(value, torch.Tensor):
            return False
        elif type(value) in (list, tuple) and value and not isinstance(value[0], (int, float)):
            if not are_blank(value, {}):
                return False
            found = True
    if kwargs and any(isinstance(value, (torch.Tensor, list, tuple)) for value in kwargs.values()):
        return False
    return found
