"""What a prediction found, beside the recording."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpumemprof.estimate.engine.assumptions import Assumption
from gpumemprof.estimate.engine.card import Card

__all__ = ["Facts"]


@dataclass
class Facts:
    card: Card
    torch_version: str
    peak_allocated_bytes: int
    peak_reserved_bytes: int
    operation_count: int
    assumptions: list[Assumption] = field(default_factory=list)
    out_of_memory: str = ""  # the first message, if the card was full
    failure: str = ""  # the sentence, if the program could not be predicted
    operations_without_rules: dict[str, int] = field(default_factory=dict)
