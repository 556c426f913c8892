"""Plain tables and bars of text."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["bar", "table"]


def table(rows: Sequence[Sequence[str]], is_text: Sequence[bool]) -> list[str]:
    """Columns next to each other: texts to the left, figures to the right.

    >>> table([["card", "peak"], ["t4", "1.00 GiB"]], [True, False])
    ['  card      peak', '  t4    1.00 GiB']
    """
    widths = [max(len(row[column]) for row in rows) for column in range(len(is_text))]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if left else cell.rjust(width)
            for cell, width, left in zip(row, widths, is_text)
        ]
        lines.append(("  " + "  ".join(cells)).rstrip())
    return lines


_PARTS = " ▏▎▍▌▋▊▉"


def bar(share: float, width: int) -> str:
    """A bar that fills its share of the width.

    >>> bar(0.5, 4), bar(0.3, 4), bar(2.0, 4)
    ('██', '█▏', '████')
    """
    eighths = min(width * 8, max(0, int(share * width * 8)))
    return ("█" * (eighths // 8) + _PARTS[eighths % 8]).rstrip()
