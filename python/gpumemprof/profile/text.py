"""Results and summaries as plain text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gpumemprof import _core
from gpumemprof.printable import printable
from gpumemprof.profile.result import ProfileResult

__all__ = ["result_rows", "result_text", "size", "summary_rows", "summary_text"]


def size(count: int | None) -> str:
    """Format a number of bytes.

    >>> size(1536), size(-(3 << 20)), size(None)
    ('1.50 KiB', '-3.00 MiB', 'unknown')
    """
    if count is None:
        return "unknown"
    return ("-" if count < 0 else "") + _core.format_bytes(abs(count))


def change(count: int | None) -> str:
    """Format a change in bytes, with its sign."""
    return f"+{size(count)}" if count is not None and count > 0 else size(count)


def duration(seconds: float) -> str:
    """Format a duration."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.1f} µs"
    return f"{seconds * 1e3:.2f} ms" if seconds < 1 else f"{seconds:.3f} s"


def _gross(count: int | None, storages: int | None) -> str:
    if storages is None:
        return size(count)
    return f"{size(count)} in {storages:,} storage{'' if storages == 1 else 's'}"


def result_rows(result: ProfileResult) -> list[tuple[str, str]]:
    """The contents of a result, one row each."""
    rows = [
        ("peak", f"{size(result.peak_memory_usage())} ({change(result.peak_above_start())})"),
        ("allocated", _gross(result.memory_allocated, result.tensors_created)),
        ("freed", _gross(result.memory_freed, result.tensors_deleted)),
        ("change", change(result.memory_diff())),
        ("time", duration(result.execution_time)),
    ]
    if result.error is not None:
        rows.append(("ended by", (result.error.splitlines() or [""])[0]))
    if result.provenance != "measured":
        rows.append((result.provenance, result.note or ""))
    return rows


def summary_rows(summary: dict[str, Any]) -> list[list[str]]:
    """The functions of a summary, one row each below the header."""
    rows = [["function", "calls", "average time", "average allocated", "peak"]]
    for name, sums in summary["function_summaries"].items():
        average = sums["avg_memory_allocated"]
        rows.append(
            [
                name,
                f"{sums['call_count']:,}",
                duration(sums["avg_time"]),
                size(None if average is None else round(average)),
                size(sums["peak_memory"]),
            ]
        )
    return rows


def _table(rows: Iterable[list[str]]) -> list[str]:
    all_rows = list(rows)
    widths = [max(map(len, column)) for column in zip(*all_rows)]
    return [
        "  ".join(
            cell.ljust(width) if index == 0 else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths))
        ).rstrip()
        for row in all_rows
    ]


def _lines(lines: Iterable[str]) -> str:
    """Join lines; names and messages among them may contain anything."""
    return "\n".join(map(printable, lines))


def counted(number: int, noun: str) -> str:
    """``1 call``, ``1,203 calls``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def result_text(result: ProfileResult) -> str:
    """A small table, headed by the name."""
    rows = [f"  {name:<10} {text}" for name, text in result_rows(result)]
    return _lines([f"{result.function_name} on {_device(result)}", *rows])


def _device(result: ProfileResult) -> str:
    number = result.memory_before.device_id
    return "cpu" if number < 0 else f"cuda:{number}"


def summary_text(summary: dict[str, Any]) -> str:
    """What was profiled, by function."""
    head = (
        f"{summary['device']}: {counted(summary['total_function_calls'], 'call')} of "
        f"{counted(summary['total_functions_profiled'], 'function')}, "
        f"peak {size(summary['peak_memory_usage'])}, "
        f"now {size(summary['current_memory_usage'])} "
        f"({change(summary['memory_change_from_baseline'])} since the baseline)"
    )
    rows = summary_rows(summary)
    return _lines([head, *(f"  {line}" for line in _table(rows))] if len(rows) > 1 else [head])
