"""How much of a prediction comes from rules that are not exact."""

from __future__ import annotations

from gpumemprof.estimate.engine.certainty import Certainty

__all__ = ["FITTED_SHARE", "Doubt"]

# How far a fitted rule was off, at worst, where it was compared with a GPU.
FITTED_SHARE = 0.25


class Doubt:
    """Follows the live bytes of fitted and guessed rules, and what they mean for the peak.

    A fitted block may be a quarter larger; a guessed one twice as large. The real peak may then be
    at another moment than the predicted one, so the highest possible sum is followed as well.
    """

    def __init__(self) -> None:
        self._live: dict[int, tuple[Certainty, int]] = {}
        self._sums = {"fitted": 0, "guess": 0}
        self._peak = 0
        self._highest = 0.0
        self._at_peak = dict(self._sums)
        self._allocated = 0
        self._unknown = 0

    def on_unknown(self, size_bytes: int) -> None:
        """A kernel that nobody has recorded may have allocated so much for a moment."""
        self._unknown = max(self._unknown, self._allocated + size_bytes)

    def on_allocation(
        self, address: int, size_bytes: int, certainty: Certainty, allocated_bytes: int
    ) -> None:
        """A block was allocated; `allocated_bytes` are live now."""
        if certainty != "exact":
            self._live[address] = (certainty, size_bytes)
            self._sums[certainty] += size_bytes
        self._allocated = allocated_bytes
        if allocated_bytes > self._peak:
            self._peak = allocated_bytes
            self._at_peak = dict(self._sums)
        upper = allocated_bytes + FITTED_SHARE * self._sums["fitted"] + self._sums["guess"]
        self._highest = max(self._highest, upper)

    def on_free(self, address: int) -> None:
        """A block was freed."""
        if self._live and (found := self._live.pop(address, None)) is not None:
            certainty, size = found
            self._sums[certainty] -= size

    def bytes_by_certainty(self) -> dict[str, int]:
        """At the peak, by the certainty of rules; `above`: by how much it may be higher."""
        doubtful = sum(self._at_peak.values())
        return {
            "exact": max(0, self._peak - doubtful),
            **self._at_peak,
            "above": max(0, int(self._highest) - self._peak),
            "unknown": max(0, self._unknown - self._peak),
        }
