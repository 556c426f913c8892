"""Text that fits the terminal."""

from __future__ import annotations

import shutil
import textwrap

__all__ = ["page_width", "paragraph"]

_WIDEST = 100


def page_width() -> int:
    """Columns of the terminal, or 80."""
    return min(_WIDEST, shutil.get_terminal_size((80, 24)).columns)


def paragraph(text: str, indent: int = 0, later_indent: int = 2) -> list[str]:
    """The text in lines that fit the terminal; its later lines are indented by two columns."""
    return textwrap.wrap(
        text,
        page_width(),
        initial_indent=" " * indent,
        subsequent_indent=" " * max(indent, later_indent),
        break_long_words=False,
        break_on_hyphens=False,
    )
