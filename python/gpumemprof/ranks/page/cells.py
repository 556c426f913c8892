"""The cells of the heat map: for each rank and column, the largest figure of the column's steps.

A page has room for a limited number of cells. If there are more steps than columns, each column
stands for several steps; if there are many cells, their figures are rounded to a unit. Both are
said in the page.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpumemprof.errors import Error
from gpumemprof.ranks.read import Progress, every_column
from gpumemprof.ranks.reading.work import in_processes
from gpumemprof.ranks.summary import RankSummary

__all__ = ["METRICS", "Cells", "Resolution", "find_cells", "first_resolution"]

METRICS = ("peak", "floor", "reserved", "outside")
_WANTED = ("step", *(f"{name}_bytes" for name in METRICS))
_UNKNOWN = -1
_COARSER_UNIT = 4
_MOST_COLUMNS = 1024
# Of one metric: a browser draws and a page holds as many without effort.
_MOST_CELLS = 1 << 21
_MOST_EXACT_CELLS = 1 << 16
_MOST_UNITS = 2048
_CHUNK = 256

Row = list[int | None]


@dataclass(frozen=True)
class Resolution:
    """How finely the cells are divided."""

    most_columns: int
    unit_bytes: int
    """Figures are rounded to multiples of it."""


@dataclass
class Cells:
    """The heat map of one job."""

    first_steps: list[int]
    """The first step of each column."""
    last_steps: list[int]
    step_count: int
    unit_bytes: int
    rows: dict[str, list[Row]]
    """By metric, for each rank: the first figure, then differences, in units; None: not known."""

    def coarser(self) -> Cells:
        """With half the columns, and figures rounded to four times the unit."""
        return Cells(
            self.first_steps[::2],
            [*self.last_steps[1::2], *self.last_steps[-1:]][: -(-len(self.last_steps) // 2)],
            self.step_count,
            self.unit_bytes * _COARSER_UNIT,
            {name: [_coarser_row(row) for row in rows] for name, rows in self.rows.items()},
        )


def _coarser_row(row: Row) -> Row:
    values: list[int] = []
    now = 0
    for difference in row:
        now += difference or 0
        values.append(_UNKNOWN if difference is None else now)
    coarser: Row = []
    before = 0
    for place in range(0, len(values), 2):
        most = max(values[place : place + 2])
        if most == _UNKNOWN:
            coarser.append(None)
            continue
        rounded = (most + _COARSER_UNIT // 2) // _COARSER_UNIT
        coarser.append(rounded - before)
        before = rounded
    return coarser


def first_resolution(ranks: Sequence[RankSummary]) -> Resolution:
    """As fine as the page allows before it is packed."""
    count = max(1, len(ranks))
    steps = max((len(one.steps) for one in ranks), default=1)
    columns = max(1, min(_MOST_COLUMNS, _MOST_CELLS // count))
    if count * min(columns, steps) <= _MOST_EXACT_CELLS:
        return Resolution(columns, 1)
    largest = max((_largest(one) for one in ranks), default=1)
    unit = 1
    while unit * _MOST_UNITS < largest:
        unit *= 2
    return Resolution(columns, unit)


def _largest(rank: RankSummary) -> int:
    return max(rank.peak_bytes or 0, rank.reserved_bytes or 0, rank.outside_bytes or 0)


def find_cells(
    ranks: Sequence[RankSummary], resolution: Resolution, progress: Progress | None = None
) -> Cells:
    """The cells of these ranks, in their order; the columns of each rank are read again."""
    steps = _all_steps(ranks)
    width = max(1, -(-len(steps) // resolution.most_columns))
    first = list(steps[::width])
    last = [steps[min(start + width, len(steps)) - 1] for start in range(0, len(steps), width)]
    rows: dict[str, list[Row]] = {name: [] for name in METRICS}
    task = _Task(first, last, resolution.unit_bytes)
    for found in _every(ranks, task, progress):
        for name, row in zip(METRICS, found):
            rows[name].append(row)
    return Cells(first, last, len(steps), resolution.unit_bytes, rows)


def _all_steps(ranks: Sequence[RankSummary]) -> Sequence[int]:
    """The numbers of all steps, in order."""
    known: set[int] = set()
    before: array[int] | None = None
    for one in ranks:
        if one.steps is not before:  # Ranks with the same steps share the column.
            known.update(one.steps)
            before = one.steps
    return sorted(known)


@dataclass(frozen=True)
class _Task:
    first: list[int]
    last: list[int]
    unit_bytes: int


def _every(
    ranks: Sequence[RankSummary], task: _Task, progress: Progress | None
) -> Iterator[list[Row]]:
    """Of many ranks, by as many processes as there are processors."""
    global _ranks
    _ranks = ranks  # Processes that are forked now have them without a copy.
    done = 0
    for chunk in in_processes(_rows_of_chunk, [(at, task) for at in range(0, len(ranks), _CHUNK)]):
        yield from chunk
        done += len(chunk)
        if progress is not None:
            progress(done, len(ranks))
    _ranks = ()


_ranks: Sequence[RankSummary] = ()


def _rows_of_chunk(given: tuple[int, _Task]) -> list[list[Row]]:
    start, task = given
    return [_rows_of(one, task) for one in _ranks[start : start + _CHUNK]]


def _rows_of(rank: RankSummary, task: _Task) -> list[Row]:
    try:
        columns = every_column(rank, _WANTED)
    except (OSError, ValueError, KeyError, TypeError, Error):
        columns = {}  # It was readable a moment ago: the report has its totals.
    steps = columns.get("step", rank.steps)
    bounds = _bounds(steps, task)
    return [_row(columns.get(f"{name}_bytes"), bounds, task.unit_bytes) for name in METRICS]


def _bounds(steps: Sequence[int], task: _Task) -> list[tuple[int, int]]:
    """Where the steps of each column begin and end among those of a rank."""
    ends = [bisect_right(steps, last) for last in task.last]
    return list(zip([0, *ends], ends))


def _row(values: array[int] | None, bounds: Sequence[tuple[int, int]], unit: int) -> Row:
    if values is None:
        return []
    row: Row = []
    before = 0
    half = unit // 2
    for begin, end in bounds:
        if begin >= end:
            row.append(None)
            continue
        now = (max(values[begin:end]) + half) // unit
        row.append(now - before)
        before = now
    return row
