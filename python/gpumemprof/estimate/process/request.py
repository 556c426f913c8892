"""What the process of the predicted program is asked for, passed on with the settings of `run`."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

__all__ = ["Request"]


@dataclass(frozen=True)
class Request:
    """How one program is to be predicted."""

    notes_path: str
    """Where to write down how the program ended."""
    card: str
    """The card's id."""
    limit_bytes: int
    """What PyTorch's pool may grow to."""
    steps: int | None = None
    """End after this many optimizer steps; None: when the program ends."""
    seconds: float | None = None
    """End after this time."""
    assumed: dict[str, float] = field(default_factory=dict)
    """By ``file:line``: what the values computed there are to be taken for."""
    shows_progress: bool = False
    has_scratch: bool = False
    """What the program writes lands in a scratch folder; otherwise it cannot write."""
    world: dict[str, Any] | None = None
    """The fields of `World` if the program has several ranks."""

    def text(self) -> str:
        """For the environment."""
        return json.dumps(asdict(self))

    @classmethod
    def read(cls, text: str) -> Request:
        """The reverse of `text`."""
        return cls(**json.loads(text))
