"""What the predicted process writes down at its end, beside the recording."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

__all__ = ["Notes"]


@dataclass
class Notes:
    """How the program ended."""

    ended: str = ""
    """``exit``, ``steps``, ``limit``, ``out of memory``, ``exception``; empty if it was killed."""
    steps: int = 0
    line: str = ""
    """Where it was when its time was over or it ended itself; empty if unknown."""
    problem: str = ""
    """One sentence if it could not be predicted to its end."""
    is_prediction_refused: bool = False
    """Whether the prediction, not the program, is why it ended."""
    sent: list[str] = field(default_factory=list)
    """The hosts that it spoke to."""
    started: list[str] = field(default_factory=list)
    """The programs that it started."""

    def write(self, path: str) -> None:
        """Replace the file."""
        Path(path).write_text(json.dumps(asdict(self)), encoding="utf-8")

    @classmethod
    def take(cls, path: Path) -> Notes:
        """Read and delete the file; a process that was killed leaves none."""
        try:
            notes = cls(**json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return cls()
        path.unlink()
        return notes
