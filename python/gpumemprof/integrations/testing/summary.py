"""The list at the end of a session: the tests that used most."""

from __future__ import annotations

from gpumemprof.integrations.testing.used import Used
from gpumemprof.printable import printable
from gpumemprof.profile.text import size

__all__ = ["summary_lines"]


def _peak(row: tuple[str, Used]) -> int:
    return -1 if row[1].peak is None else row[1].peak


def summary_lines(rows: list[tuple[str, Used]], most: int) -> list[str]:
    """The tests that used most, the largest first."""
    if not rows:
        return ["No test was measured."]
    # A test that another plugin runs again is listed once, by the run that used most.
    once: dict[tuple[str, str], tuple[str, Used]] = {}
    for name, used in sorted(rows, key=_peak, reverse=True):
        once.setdefault((name, used.device), (name, used))
    ordered = list(once.values())
    shown = ordered[: max(0, most)]
    table = [("peak", "left", "device", "test")]
    table += [(size(used.peak), size(used.left), used.device, name) for name, used in shown]
    widths = [max(len(row[column]) for row in table) for column in range(3)]
    lines = [
        f"{peak:>{widths[0]}}  {left:>{widths[1]}}  {device:<{widths[2]}}  {printable(name)}"
        for peak, left, device, name in table
    ]
    rest = len(ordered) - len(shown)
    if rest > 0:
        lines.append(f"… and {rest} more; --gpumemprof-top shows more")
    return lines
