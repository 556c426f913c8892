"""Results and summaries as a small table and a timeline, for notebooks.

One fragment of HTML without scripts, external styles or anything from the network.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING

from gpumemprof.profile.memory_state import MemorySnapshot
from gpumemprof.profile.text import result_rows, size, summary_rows, summary_text

if TYPE_CHECKING:
    from gpumemprof.profile.result import ProfileResult
    from gpumemprof.profile.summary import Summary

__all__ = ["result_html", "summary_html", "timeline_svg"]

_WIDTH, _HEIGHT = 480, 80
# More points than pixels add nothing.
_MOST_POINTS = 2 * _WIDTH


def _table(rows: Iterable[Iterable[str]], has_head: bool) -> str:
    lines = []
    for number, row in enumerate(rows):
        tag = "th" if has_head and number == 0 else "td"
        lines.append("<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in row) + "</tr>")
    return f"<table>{''.join(lines)}</table>"


def _thinned(points: list[tuple[float, int]]) -> list[tuple[float, int]]:
    """Keep the highest point of each bucket, so that no peak is lost."""
    step = -(-len(points) // _MOST_POINTS)
    if step <= 1:
        return points
    buckets = (points[start : start + step] for start in range(0, len(points), step))
    return [max(bucket, key=lambda point: point[1]) for bucket in buckets]


def timeline_svg(snapshots: list[MemorySnapshot]) -> str:
    """Allocated bytes over time; empty if they are known at fewer than two moments."""
    known = [
        (snapshot.timestamp, snapshot.allocated_memory)
        for snapshot in sorted(snapshots, key=lambda snapshot: snapshot.timestamp)
        if snapshot.allocated_memory is not None
    ]
    points = _thinned(known)
    if len(points) < 2:
        return ""
    start, end = points[0][0], points[-1][0]
    top = max(allocated for _, allocated in points)
    across, up = _WIDTH / ((end - start) or 1), _HEIGHT / (top or 1)
    path = " ".join(
        f"{(timestamp - start) * across:.1f},{_HEIGHT - allocated * up:.1f}"
        for timestamp, allocated in points
    )
    title = f"allocated over {end - start:.3f} s, at most {size(top)}"
    return (
        f'<svg width="{_WIDTH}" height="{_HEIGHT + 2}" viewBox="0 -1 {_WIDTH} {_HEIGHT + 2}" '
        f'role="img" aria-label="{escape(title)}"><title>{escape(title)}</title>'
        f'<polygon points="0,{_HEIGHT} {path} {_WIDTH},{_HEIGHT}" fill="#4c78a8" '
        f'fill-opacity="0.25"/><polyline points="{path}" fill="none" stroke="#4c78a8"/></svg>'
    )


def result_html(result: ProfileResult) -> str:
    """The figures, and the path from start through peak to end."""
    moments = [result.memory_before, result.memory_peak, result.memory_after]
    return (
        f"<div><strong>{escape(result.function_name)}</strong>"
        f"{_table(result_rows(result), has_head=False)}{timeline_svg(moments)}</div>"
    )


def summary_html(summary: Summary) -> str:
    """The functions, and what monitoring saw."""
    head = summary_text(summary).splitlines()[0]
    rows = summary_rows(summary)
    table = _table(rows, has_head=True) if len(rows) > 1 else ""
    timeline = timeline_svg(getattr(summary, "snapshots", []))
    return f"<div><div>{escape(head)}</div>{table}{timeline}</div>"
