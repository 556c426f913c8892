"""How certain a rule is."""

from __future__ import annotations

from typing import Literal

__all__ = ["Certainty"]

Certainty = Literal["exact", "fitted", "guess", "absent"]
"""`absent`: a block that is there, or is so large, only if an assumption holds."""
