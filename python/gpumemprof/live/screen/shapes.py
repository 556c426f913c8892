"""Bars, sparklines, and text that fits its column."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size
from rich.text import Text

__all__ = ["bar", "fit", "fit_start", "load_style", "right", "sparkline"]

_EIGHTHS = " ▏▎▍▌▋▊▉█"
_LEVELS = "▁▂▃▄▅▆▇█"
_WARNING_SHARE = 0.8
_ALARM_SHARE = 0.95


def load_style(share: float) -> str:
    """Green, yellow or red, by how full something is."""
    if share >= _ALARM_SHARE:
        return "bold red"
    return "yellow" if share >= _WARNING_SHARE else "green"


def bar(share: float, width: int, style: str) -> Text:
    """A bar of `width` cells, filled to an eighth of a cell."""
    eighths = round(max(0.0, min(1.0, share)) * width * 8)
    whole, rest = divmod(eighths, 8)
    filled = "█" * whole + (_EIGHTHS[rest] if rest else "")
    drawn = Text(filled, style=style)
    drawn.append("░" * (width - len(filled)), style="bright_black")
    return drawn


def sparkline(values: Sequence[float], low: float, high: float, style: str) -> Text:
    """One cell for each value; `low` and `high` are the ends of the scale."""
    span = high - low
    drawn = Text(style=style)
    for value in values:
        level = round((value - low) / span * (len(_LEVELS) - 1)) if span > 0 else 0
        drawn.append(_LEVELS[level])
    return drawn


def _resized(text: str, width: int) -> str:
    resized: str = set_cell_size(text, width)
    return resized


def fit(text: str, width: int) -> str:
    """Exactly `width` cells: filled up, or cut with an ellipsis."""
    if cell_len(text) <= width:
        return _resized(text, width)
    return _resized(text, width - 1) + "…" if width > 0 else ""


def fit_start(text: str, width: int) -> str:
    """The same, but what is cut is the beginning: of a path, the end matters."""
    if cell_len(text) <= width:
        return _resized(text, width)
    while text and cell_len(text) > width - 1:
        text = text[1:]
    return _resized("…" + text, width) if width > 0 else ""


def right(text: str, width: int) -> str:
    """Exactly `width` cells, aligned to the right."""
    missing = width - cell_len(text)
    return " " * missing + text if missing >= 0 else fit(text, width)
