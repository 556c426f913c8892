"""What each test used, as its report carries it, and the list at the end of a session.

Reports travel from xdist's workers to the process that prints, and their properties with them;
JUnit's XML shows them too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gpumemprof.printable import printable
from gpumemprof.profile.text import size

__all__ = ["Used", "summary_lines", "used_in"]

_PEAK = "gpumemprof_peak_bytes_"
_LEFT = "gpumemprof_left_bytes_"


@dataclass(frozen=True)
class Used:
    """The memory of one test on one device, in bytes; None where unknown."""

    device: str
    peak: int | None
    """The most it had allocated at one time, beyond what was allocated when it began."""
    left: int | None
    """What it left allocated."""

    def properties(self) -> list[tuple[str, object]]:
        """As a test's report carries it."""
        return [(_PEAK + self.device, self.peak), (_LEFT + self.device, self.left)]


def used_in(properties: Iterable[tuple[str, object]]) -> Iterator[Used]:
    """What a report carries.

    >>> list(used_in([("other", 1), *Used("cpu", 8, None).properties()]))
    [Used(device='cpu', peak=8, left=None)]
    """
    known = {str(name): value for name, value in properties}
    for name, peak in known.items():
        if name.startswith(_PEAK):
            device = name[len(_PEAK) :]
            left = known.get(f"{_LEFT}{device}")
            yield Used(
                device,
                peak if isinstance(peak, int) else None,
                left if isinstance(left, int) else None,
            )


def summary_lines(rows: list[tuple[str, Used]], most: int) -> list[str]:
    """The tests that used most, the largest first."""
    if not rows:
        return ["No test was measured."]
    ordered = sorted(rows, key=lambda row: -1 if row[1].peak is None else row[1].peak, reverse=True)
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
