"""What a prediction found, beside the recording."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpumemprof.estimate.cards import Card
from gpumemprof.estimate.engine.assumptions import Assumption
from gpumemprof.estimate.rules.table import Certainty

__all__ = ["Facts", "OperationFacts"]


@dataclass
class OperationFacts:
    """How often an operation was called, and how certain its rule is; None has no rule."""

    name: str
    calls: int
    certainty: Certainty | None


@dataclass
class Facts:
    card: Card
    torch_version: str
    peak_allocated_bytes: int
    peak_reserved_bytes: int
    operations: list[OperationFacts] = field(default_factory=list)
    assumptions: list[Assumption] = field(default_factory=list)
    out_of_memory: str = ""  # the first message, if the card was full
    bytes_by_certainty: dict[str, int] = field(default_factory=dict)  # see `Doubt`
    reserved_range: tuple[int, int] | None = None  # of its peak, over orders of segments
    communicators: int = 0  # groups of ranks that made a collective on the card
    failure: str = ""  # the sentence, if the program could not be predicted

    @property
    def operation_count(self) -> int:
        return sum(each.calls for each in self.operations)
