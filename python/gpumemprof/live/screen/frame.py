"""The whole screen as lines, from what is watched and what the user chose."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.text import Text

from gpumemprof.live.figures import Row, rows
from gpumemprof.live.ranks import ranks_line, silence_line
from gpumemprof.live.screen.details import detail_lines
from gpumemprof.live.screen.shapes import fit
from gpumemprof.live.screen.table import COLUMNS, TableState, arranged, table_lines
from gpumemprof.live.watcher import Watcher
from gpumemprof.printable import printable

__all__ = ["Frame", "frame_lines", "shown_rows"]

_HELP = """\
↑ ↓  j k       select a row            PgUp PgDn Home End  further
< >            sort by the column to the left or right
N D C H M P    sort by program, device, card, headroom, allocated, peak
R S E T        sort by reserved, step, events per second, state
I              reverse the order
/              show only rows that contain what you type; Esc shows all
?              this help
q              quit

CARD       the share of the card that all processes have taken: measured once a
           second, plus what the pool has taken or returned since
HEADROOM   what the pool can still take from the card
Peak now   the highest moment since the last refresh, exact: no sample
Lines      the lines of your code that hold the most; ▲ keeps growing
A short dash stands for what is not known."""
_RANKS_OF_MACHINE = 8
_KEYS = (("↑↓", "select"), ("< >", "sort"), ("/", "filter"), ("?", "help"), ("q", "quit"))


@dataclass
class Frame:
    """Everything that determines what is drawn.

    Attributes:
        output: the last lines that the program printed; None if it prints elsewhere.
    """

    watcher: Watcher
    table: TableState = field(default_factory=TableState)
    is_filtering: bool = False
    is_help: bool = False
    output: Sequence[str] | None = None
    quits: str = "quit"


def shown_rows(frame: Frame) -> list[Row]:
    """In the order of the screen."""
    return arranged(rows(frame.watcher.recordings), frame.table)


def frame_lines(frame: Frame, width: int, height: int) -> list[Text]:
    """Exactly `height` lines of at most `width` cells."""
    shown = shown_rows(frame)
    keys = [row.key for row in shown]
    if frame.table.selected not in keys:
        frame.table.selected = keys[0] if keys else None
    lines = [_header(frame, width)]
    output = _output(frame, width, height)
    room = height - len(lines) - len(output) - 1
    if frame.is_help:
        body = [Text(line) for line in _HELP.splitlines()]
    elif shown:
        body = table_lines(shown, frame.table, width, _table_height(len(shown), height))
        together = ranks_line(shown)
        if together:
            body.append(Text(fit(f"  {together}", width).rstrip(), style="bold"))
        if silence := silence_line(shown):
            lines_of_it = textwrap.wrap(silence, max(1, width - 2))
            body += [Text(f"  {line}", style="bold red") for line in lines_of_it]
        body.append(Text("─" * width, style="bright_black"))
        selected = next(row for row in shown if row.key == frame.table.selected)
        body += detail_lines(selected, width, room - len(body))
    else:
        body = [Text(), *_nothing(frame, width)]
    body = body[:room] + [Text()] * (room - len(body))
    lines += [*body, *output, _footer(frame, width)]
    for line in lines:
        line.truncate(width)
    return lines


def _table_height(count: int, height: int) -> int:
    """With its title: a quarter of the screen, but all ranks of a machine with eight cards."""
    room = max(height // 4 + 1, min(_RANKS_OF_MACHINE + 1, height // 2 - 2))
    return max(2, min(count + 1, room))


def _nothing(frame: Frame, width: int) -> list[Text]:
    sentences = frame.watcher.why_none()
    if frame.watcher.recordings:
        sentences = ["no row contains what you typed after /; Esc shows all"]
    lines: list[str] = []
    for sentence in sentences:
        lines += textwrap.wrap(printable(sentence), max(1, width - 4))
    return [Text(f"  {line}", style="yellow") for line in lines]


def _header(frame: Frame, width: int) -> Text:
    recordings = frame.watcher.recordings
    running = sum(1 for one in recordings if not one.state.is_over)
    words = f" gpumemprof live   {running} running, {len(recordings) - running} over"
    if frame.watcher.left_out:
        words += f", {frame.watcher.left_out} more not watched"
    clock = time.strftime("%H:%M:%S ")
    return Text(fit(words, max(0, width - len(clock))) + clock, style="bold white on blue")


def _footer(frame: Frame, width: int) -> Text:
    if frame.is_filtering or frame.table.filter:
        cursor = "█" if frame.is_filtering else ""
        how = "   Enter keeps it, Esc shows all" if frame.is_filtering else "   Esc shows all"
        return Text(fit(f"/{printable(frame.table.filter)}{cursor}{how}", width), style="reverse")
    line = Text()
    for key, meaning in _KEYS:
        line.append(f" {key} ", style="reverse")
        line.append(f" {frame.quits if key == 'q' else meaning}  ")
    direction = "reversed" if frame.table.is_reversed else ""
    sort = f"sorted by {COLUMNS[frame.table.sort].title.lower()} {direction}".rstrip()
    if line.cell_len + len(sort) <= width:
        line.append(sort, style="bright_black")
    return line


def _output(frame: Frame, width: int, height: int) -> list[Text]:
    if frame.output is None:
        return []
    room = max(3, height // 4)
    title = fit("── output of the program ─", width).rstrip()
    lines = [Text(title + "─" * (width - len(title)), style="bright_black")]
    last = list(frame.output)[-room:]
    lines += [Text(fit(printable(text.expandtabs()), width).rstrip()) for text in last]
    return lines + [Text()] * (room + 1 - len(lines))
