"""The rows of the screen: one for each device of each process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rich.text import Text

from gpumemprof.live.figures import UNKNOWN, Row, shown_bytes, shown_count, shown_percent
from gpumemprof.live.screen.shapes import fit, load_style, right

__all__ = ["COLUMNS", "TableState", "arranged", "table_lines"]

_LEAST_NAME = 14
_MOST_NAME = 40


@dataclass(frozen=True)
class Column:
    """A column: what it is sorted by, and how it is written.

    Attributes:
        key: the letter that sorts by it.
        width: in cells, without the space before it; 0: what is left.
        least_screen: narrower screens leave it out.
    """

    title: str
    key: str
    width: int
    sorted_by: Callable[[Row], Any]
    written: Callable[[Row], str]
    least_screen: int = 0
    is_left: bool = False


def _number(value: float | None) -> float:
    return -1.0 if value is None else float(value)


def _bytes(name: str) -> Callable[[Row], str]:
    return lambda row: shown_bytes(row.bytes_of(name))


def _by_bytes(name: str) -> Callable[[Row], float]:
    return lambda row: _number(row.bytes_of(name))


def _device(row: Row) -> str:
    return str(row.device.get("device", UNKNOWN))


def _state(row: Row) -> str:
    return row.recording.state.name


def _rate(row: Row) -> float | None:
    return row.recording.events_per_second


COLUMNS = (
    Column("PROGRAM", "N", 0, lambda row: (row.program, _number(row.rank)), lambda row: row.name),
    Column("DEVICE", "D", 6, _device, _device, is_left=True),
    Column("CARD", "C", 7, lambda row: _number(row.filled), lambda row: shown_percent(row.filled)),
    Column(
        "HEADROOM",
        "H",
        8,
        lambda row: _number(row.headroom_bytes),
        lambda row: shown_bytes(row.headroom_bytes),
    ),
    Column("ALLOC", "M", 8, _by_bytes("allocated_bytes"), _bytes("allocated_bytes")),
    Column("PEAK", "P", 8, _by_bytes("peak_allocated_bytes"), _bytes("peak_allocated_bytes")),
    Column("RESERVED", "R", 8, _by_bytes("reserved_bytes"), _bytes("reserved_bytes"), 100),
    Column("STEP", "S", 6, lambda row: _number(row.step), lambda row: shown_count(row.step)),
    Column(
        "EVENTS/S",
        "E",
        8,
        lambda row: _number(_rate(row)),
        lambda row: shown_count(_rate(row)),
        100,
    ),
    Column("STATE", "T", 9, _state, _state, is_left=True),
)


@dataclass
class TableState:
    """What the user has chosen."""

    sort: int = 0
    is_reversed: bool = False
    filter: str = ""
    selected: tuple[str, str] | None = None


def arranged(rows: list[Row], state: TableState) -> list[Row]:
    """Filtered and sorted; figures sort from the largest down, names up."""
    words = state.filter.lower().split()
    shown = [row for row in rows if all(word in _text(row) for word in words)]
    column = COLUMNS[state.sort]
    # Programs that have ended come last, whatever the order.
    shown.sort(key=column.sorted_by, reverse=_falls(state))
    shown.sort(key=lambda row: row.recording.state.is_over)
    return shown


def _falls(state: TableState) -> bool:
    column = COLUMNS[state.sort]
    return (not column.is_left and column.width > 0) != state.is_reversed


def _text(row: Row) -> str:
    parts = [row.name, str(row.pid), row.device.get("device", ""), row.recording.state.name]
    return " ".join([*parts, str(row.recording.path)]).lower()


def _widths(width: int) -> list[tuple[Column, int]]:
    shown = [column for column in COLUMNS if column.least_screen <= width]
    taken = sum(column.width + 1 for column in shown if column.width) + 2
    name = max(_LEAST_NAME, min(_MOST_NAME, width - taken))
    return [(column, column.width or name) for column in shown]


def _cell(text: str, column: Column, width: int) -> str:
    is_left = column.is_left or not column.width
    return fit(text, width) if is_left else right(text, width)


def table_lines(rows: list[Row], state: TableState, width: int, height: int) -> list[Text]:
    """The title and as many rows as fit, those around the selected one."""
    columns = _widths(width)
    title = Text("  ", style="bold reverse")
    for column, cells in columns:
        mark = ("▼" if _falls(state) else "▲") if column is COLUMNS[state.sort] else ""
        title.append(_cell(column.title[: cells - len(mark)] + mark, column, cells) + " ")
    title.truncate(width)
    title.pad_right(max(0, width - title.cell_len))
    lines = [title]
    room = max(1, height - 1)
    place = next((i for i, row in enumerate(rows) if row.key == state.selected), 0)
    first = max(0, min(place - room // 2, len(rows) - room))
    for number, row in enumerate(rows[first : first + room], start=first):
        lines.append(_row_line(row, columns, number == place))
    return lines


def _row_line(row: Row, columns: list[tuple[Column, int]], is_selected: bool) -> Text:
    is_over = row.recording.state.is_over
    line = Text("▸ " if is_selected else "  ", style="bold" if is_selected else "")
    for column, cells in columns:
        style = "bright_black" if is_over and not is_selected else ""
        if column.title == "CARD" and row.filled is not None and not is_over:
            style = load_style(row.filled)
        if column.title == "STATE":
            style = _state_style(row)
        line.append(_cell(column.written(row), column, cells) + " ", style=style)
    return line


def _state_style(row: Row) -> str:
    state = row.recording.state
    if state.is_bad:
        return "bold red"
    return "bright_black" if state.is_over else "green"
