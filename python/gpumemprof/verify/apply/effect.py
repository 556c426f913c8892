"""The request to the process that applies remedies, and the effects it reports."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Effect", "Request"]


@dataclass
class Request:
    """What to apply, and where to write down what it did."""

    notes_path: str
    remedies: list[str] = field(default_factory=list)
    """Empty: the program runs as it is, and only its steps are timed."""
    checkpoint_class: str | None = None
    memory: str = "cuda"
    """``cuda`` or ``cpu``: what is recorded, so what autocast is for."""
    checkpoint_blocks: list[int] | None = None
    """Which of the modules, by their order, if there are as many as `checkpoint_of`; None: all."""
    checkpoint_of: int = 0


@dataclass
class Effect:
    """What one remedy changed."""

    name: str
    count: int = 0
    """How many things were changed; 0: nothing, and `what` says why."""
    what: str = ""
