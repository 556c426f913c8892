"""A program that cannot be predicted: one sentence with the line and what to do."""

from __future__ import annotations

from typing import Any

from gpumemprof.errors import Error
from gpumemprof.estimate.engine.user_lines import Line, current_line

__all__ = ["CannotEstimate", "no_shape_function"]


class CannotEstimate(Error):  # noqa: N818
    """Raised in the program at the line that cannot be predicted."""

    def __init__(self, message: str, hint: str, line: Line | None = None) -> None:
        self.line = current_line() if line is None else line
        super().__init__(message, "environment", str(self.line), hint)


def no_shape_function(func: Any, reason: object = "") -> CannotEstimate:
    """The shape of an operation's results is not known."""
    name = func._schema.name
    because = f" ({reason})" if reason else ""
    return CannotEstimate(
        f"estimate does not know the shape of what {name} returns{because}",
        f'describe it with @torch.library.register_fake("{name}") and run again',
    )
