"""Why a test fails, in sentences: what it used, on which lines, and what to do."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from gpumemprof.printable import printable
from gpumemprof.profile.stacks import Allocation
from gpumemprof.profile.text import size
from gpumemprof.read.report import Frame

__all__ = ["leak_message", "lines_of", "live_at_peak", "memory_message"]

_MOST_LINES = 5
_NO_LINES = "Its lines are not known: a second run of it failed, or allocated nothing."


def live_at_peak(allocations: list[Allocation]) -> list[Allocation]:
    """Those of a test's allocations that were live when they were most.

    >>> early, late = (Allocation(0, 8, 8, at, at + 1.5, []) for at in (1.0, 2.0))
    >>> [made.allocated_at for made in live_at_peak([early, late])]
    [1.0, 2.0]
    """
    # Frees before allocations, where the clock does not distinguish them.
    moments: list[tuple[float, int, int]] = []
    for number, made in enumerate(allocations):
        moments.append((made.allocated_at or 0.0, 1, number))
        if made.freed_at is not None:
            moments.append((made.freed_at, 0, number))
    moments.sort()
    now = most = 0
    live: set[int] = set()
    at_peak: set[int] = set()
    for _, is_allocation, number in moments:
        if not is_allocation:
            live.discard(number)
            now -= allocations[number].size_bytes
            continue
        live.add(number)
        now += allocations[number].size_bytes
        if now > most:
            most, at_peak = now, set(live)
    return [allocations[number] for number in sorted(at_peak)]


def _is_of_torch(file: str) -> bool:
    torch = sys.modules.get("torch")
    folder = str(Path(str(torch.__file__)).parent) + os.sep if torch is not None else ""
    return bool(folder) and file.startswith(folder)


def _where(stack: list[Frame]) -> str:
    """The innermost line that is not torch's own."""
    for frame in stack:
        if not _is_of_torch(frame.file) and not frame.file.startswith("<"):
            path = os.path.relpath(frame.file)
            return (
                f"{path if not path.startswith('..') else frame.file}:{frame.line} in {frame.name}"
            )
    return "not in Python code"


def lines_of(allocations: Iterable[Allocation]) -> list[str]:
    """The lines that allocated most, one string each."""
    by_line: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for made in allocations:
        where = _where(made.stack)
        by_line[where] += made.size_bytes
        counts[where] += 1
    rows = by_line.most_common()
    width = max((len(size(count)) for _, count in rows[:_MOST_LINES]), default=0)
    lines = [
        f"  {size(count):>{width}}  {where}"
        + (f" ({counts[where]:,} allocations)" if counts[where] > 1 else "")
        for where, count in rows[:_MOST_LINES]
    ]
    if len(rows) > _MOST_LINES:
        rest = sum(count for _, count in rows[_MOST_LINES:])
        lines.append(f"  and {size(rest)} on {len(rows) - _MOST_LINES} other lines")
    return lines


def _text(head: str, middle: str, lines: list[str], note: str | None, end: str) -> str:
    parts = [head, middle, *lines] if lines else [head, _NO_LINES]
    if note is not None:
        parts.append(f"The figure is an estimate, {note}.")
    parts.append(end)
    return "\n".join(map(printable, parts))


def memory_message(
    name: str, device: str, used: int, limit: int, lines: list[str], note: str | None
) -> str:
    """A test allocated more than its limit."""
    return _text(
        f"{name} allocated {size(used)} on {device} at its peak, more than its limit of "
        f"{size(limit)} (limit_gpu_memory).",
        "What it had allocated at that moment, by line, in a second run:",
        lines,
        note,
        f"Allocate less at one time{' on these lines' if lines else ''}, or raise the limit if "
        "that is what it needs.",
    )


def leak_message(
    name: str, device: str, left: int, limit: int, warmups: int, lines: list[str], note: str | None
) -> str:
    """A test left more allocated than its limit."""
    after = f", after {warmups} warm-up run{'' if warmups == 1 else 's'}" if warmups else ""
    advice = (
        "Free it before the test ends, or find what still holds it with gpumemprof.expect_freed()"
    )
    if not warmups:
        advice += "; if only the first run leaves it, as a cache does, give warmups=1"
    return _text(
        f"{name} left {size(left)} allocated on {device}{after}, more than its limit of "
        f"{size(limit)} (limit_gpu_leaks).",
        "What it allocated and did not free, by line, in a second run:",
        lines,
        note,
        f"{advice}.",
    )
