"""Recordings and tables as HTML, for notebooks.

One fragment without scripts, external styles or anything from the network.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpumemprof import _core
from gpumemprof.integrations.notebook.cells import cell_name

if TYPE_CHECKING:
    from gpumemprof.read.recording import Recording
    from gpumemprof.read.report import Frame, LiveGroup

__all__ = ["recording_html", "table_html"]

_MOST_LINES = 8
_MOST_ROWS = 10
_BAR_WIDTH = 240
_PHASES = {"optimizer_step": "the optimizer's step"}


def _size(count: int | None) -> str:
    return "unknown" if count is None else _core.format_bytes(count)


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Cells are HTML already."""
    first = "".join(f"<th>{cell}</th>" for cell in head)
    lines = ["<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows]
    return f"<table><tr>{first}</tr>{''.join(lines)}</table>"


def _bar(share: float) -> str:
    width = round(_BAR_WIDTH * min(1.0, max(0.0, share)))
    return (
        f'<svg width="{_BAR_WIDTH}" height="10" role="img" aria-label="{share:.0%}">'
        f'<rect width="{width}" height="10" fill="#4c78a8"/></svg>'
    )


def _line(stack: list[Frame]) -> str:
    """The innermost line outside of installed packages."""
    if not stack:
        return "not recorded"
    frame = next((one for one in stack if "-packages/" not in one.file), stack[0])
    cell = cell_name(frame.file)
    where = f"{frame.file}:{frame.line}" if cell is None else f"{cell}, line {frame.line}"
    return f"{where} in {frame.name}"


def _by_line(groups: Iterable[LiveGroup]) -> list[tuple[str, int, int]]:
    """Lines with their bytes and blocks, most bytes first."""
    found: dict[str, tuple[int, int]] = {}
    for group in groups:
        line = _line(group.stack)
        held, blocks = found.get(line, (0, 0))
        found[line] = (held + group.bytes, blocks + group.blocks)
    return sorted(((line, *held) for line, held in found.items()), key=lambda row: -row[1])


def recording_html(recording: Recording) -> str:
    """By device: the peak, what it was for, and the lines that allocated it."""
    missing = [recording.cut, *recording._handle.missing]
    notes = "".join(f"<div><em>{escape(note)}</em></div>" for note in missing if note)
    parts = [f"<div><strong>{escape(Path(recording.path).name)}</strong>{notes}"]
    if not recording.devices:
        parts.append("<div>no memory was allocated</div>")
    for device, sources in zip(recording.devices, recording.sources()):
        peak = device.peak.allocated_bytes
        reserved = device.peak.reserved_bytes
        head = f"{escape(device.device)}: peak {_size(peak)} allocated"
        if reserved is not None:
            head += f", {_size(reserved)} reserved"
        if sources.peak_phase not in (None, "other"):
            head += f", in {_PHASES.get(sources.peak_phase, sources.peak_phase)}"
        parts.append(f"<div>{head}</div>")
        held = [
            (name, figure)
            for name, figure in sources.sources.items()
            if figure.bytes_at_peak or figure.bytes_max
        ]
        if held:
            rows = [
                (
                    escape(name.replace("_", " ")),
                    _size(figure.bytes_at_peak),
                    _bar(figure.bytes_at_peak / peak if peak else 0.0),
                    escape(figure.provenance),
                )
                for name, figure in held
            ]
            parts.append(_table(("source", "at the peak", "", ""), rows))
        live = _by_line(device.live_at_peak)[:_MOST_LINES]
        if live:
            lines = [
                (_size(held), f"{blocks:,}", f"<code>{escape(line)}</code>")
                for line, held, blocks in live
            ]
            parts.append(_table(("live at the peak", "blocks", "allocated at"), lines))
    parts.append("</div>")
    return "".join(parts)


def _first_rows(table: Any) -> list[dict[str, Any]] | None:
    """With whatever can read Arrow; None if nothing can."""
    if importlib.util.find_spec("pyarrow") is not None:
        import pyarrow

        rows: list[dict[str, Any]] = []
        for batch in pyarrow.RecordBatchReader.from_stream(table):
            rows += batch.slice(0, _MOST_ROWS - len(rows)).to_pylist()
            if len(rows) >= _MOST_ROWS:
                break
        return rows
    if importlib.util.find_spec("polars") is not None:
        return list(table.to_polars().head(_MOST_ROWS).to_dicts())
    return None


def _cell(value: Any) -> str:
    return "" if value is None else escape(str(value))


def table_html(table: Any) -> str:
    """The first rows of a table, and how many there are."""
    names = table.column_names
    rows = _first_rows(table)
    total = f"{len(table):,} row{'' if len(table) == 1 else 's'}"
    if rows is None:
        total += "; install pyarrow or polars to see them"
    shown = [[_cell(row[name]) for name in names] for row in rows or []]
    if rows and len(rows) < len(table):
        total += f", the first {len(rows)} shown"
    return f"<div>{_table(map(escape, names), shown)}<div>{total}</div></div>"
