"""What each test used, as its report carries it.

Reports travel from xdist's workers to the process that prints, and their properties with them;
JUnit's XML shows them too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

__all__ = ["Used", "used_in"]

_PEAK = "gpumemprof_peak_bytes_"
_LEFT = "gpumemprof_left_bytes_"


class Used(NamedTuple):
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
