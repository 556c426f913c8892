"""Draws the monitored timeline and the profiled scopes with matplotlib."""

from __future__ import annotations

import math
import os
from typing import Any

from gpumemprof.errors import EnvironmentProblem
from gpumemprof.profile.memory_state import MemorySnapshot
from gpumemprof.profile.result import ProfileResult

__all__ = ["draw"]

_MIB = 1 << 20
# More names than this would overlap.
_MOST_NAMES = 40


def _mib(count: int | None) -> float:
    """In MiB; NaN, a gap in the line, if unknown."""
    return math.nan if count is None else count / _MIB


def draw(
    snapshots: list[MemorySnapshot],
    results: list[ProfileResult],
    device: str,
    path: str | os.PathLike[str] | None,
) -> Any:
    """Draw a figure; it belongs to no window, so it works anywhere."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise EnvironmentProblem(
            "plot() draws with matplotlib, which is not installed",
            "environment",
            "",
            "install it with: python -m pip install matplotlib",
        ) from None
    figure = Figure(figsize=(10, 4), layout="constrained")
    axes = figure.subplots()
    starts = [s.timestamp for s in snapshots] + [r.memory_before.timestamp for r in results]
    zero = min(starts, default=0.0)
    seen = sorted(snapshots, key=lambda snapshot: snapshot.timestamp)
    if seen:
        times = [snapshot.timestamp - zero for snapshot in seen]
        axes.plot(times, [_mib(s.reserved_memory) for s in seen], color="0.7", label="reserved")
        axes.fill_between(
            times, [_mib(s.allocated_memory) for s in seen], alpha=0.4, label="allocated"
        )
    for number, result in enumerate(results):
        _draw_scope(axes, result, zero, has_name=len(results) - number <= _MOST_NAMES)
    axes.set_xlabel("seconds")
    axes.set_ylabel("MiB")
    axes.set_title(f"Memory of {device}")
    axes.set_ylim(bottom=0)
    if seen or results:
        axes.legend(loc="upper left")
    if path is not None:
        figure.savefig(path)
    return figure


def _draw_scope(axes: Any, result: ProfileResult, zero: float, has_name: bool) -> None:
    start, end = result.memory_before.timestamp - zero, result.memory_after.timestamp - zero
    peak = result.memory_peak
    color = "tab:red" if result.error is not None else "tab:green"
    moments = (result.memory_before, peak, result.memory_after)
    axes.plot(
        [moment.timestamp - zero for moment in moments],
        [_mib(moment.allocated_memory) for moment in moments],
        color=color,
        marker=".",
    )
    axes.axvspan(start, end, color=color, alpha=0.08)
    if has_name and peak.allocated_memory is not None:
        place = (peak.timestamp - zero, _mib(peak.allocated_memory))
        axes.annotate(result.function_name, place, fontsize=8, rotation=20)
