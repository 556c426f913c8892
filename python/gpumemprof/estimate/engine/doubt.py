"""How much of a prediction comes from rules that are not exact."""

from __future__ import annotations

from gpumemprof.estimate.engine.certainty import Certainty

__all__ = ["FITTED_SHARE", "Doubt"]

# How far a fitted rule was off, at worst, where it was compared with a GPU.
FITTED_SHARE = 0.25


class Doubt:
    """Follows the live bytes of fitted and guessed rules, and what they mean for the peak.

    A fitted block may be a quarter larger; a guessed one twice as large; an operation without a
    rule may need as much again as its results. The real peak may then be at another moment than
    the predicted one, so the highest possible sum is followed as well. A block that exists only if
    an assumption holds may be absent. Where values decide which code runs, more or less may be live
    until it ends.
    """

    def __init__(self) -> None:
        self._live: dict[int, tuple[str, int]] = {}
        self._sums = {"fitted": 0, "guess": 0, "absent": 0}
        self._possible = 0
        self._peak = 0
        self._highest = 0.0
        self._largest = 0.0
        self._at_peak = dict(self._sums)

    def on_allocation(
        self, address: int, size_bytes: int, certainty: Certainty, allocated_bytes: int
    ) -> None:
        """A block was allocated; `allocated_bytes` are live now."""
        if certainty != "exact":
            share = FITTED_SHARE if certainty == "fitted" else 1
            self._largest = max(self._largest, share * size_bytes)
            self._live[address] = (certainty, size_bytes)
            self._sums[certainty] += size_bytes
        if allocated_bytes > self._peak:
            self._peak = allocated_bytes
            self._at_peak = dict(self._sums)
        self._highest = max(self._highest, self._upper(allocated_bytes))

    def on_assumed(self, address: int, size_bytes: int, certainty: Certainty = "absent") -> None:
        """A block that was allocated before lives on only if an assumption holds."""
        if address not in self._live:
            self._live[address] = (certainty, size_bytes)
            self._sums[certainty] += size_bytes

    def on_unknown(self, results_bytes: int, allocated_bytes: int) -> None:
        """An operation without a rule ran; its results are among what is live now."""
        self._largest = max(self._largest, results_bytes)
        self._highest = max(self._highest, self._upper(allocated_bytes) + results_bytes)

    def on_possible(self, more_bytes: int, less_bytes: int) -> None:
        """From now on, so much more or less than predicted may be live; negative: no longer."""
        self._possible += more_bytes
        self._sums["absent"] += less_bytes

    def _upper(self, allocated_bytes: int) -> float:
        doubtful = FITTED_SHARE * self._sums["fitted"] + self._sums["guess"]
        return allocated_bytes + doubtful + self._possible

    def on_free(self, address: int) -> None:
        """A block was freed."""
        if self._live and (found := self._live.pop(address, None)) is not None:
            certainty, size = found
            self._sums[certainty] -= size

    def bytes_by_certainty(self) -> dict[str, int]:
        """At the peak, by the certainty of rules; `above`: by how much it may be higher.

        `absent`: what is there only if assumptions hold.
        `largest`: by how much a single block may differ, at the peak or not.
        """
        doubtful = sum(self._at_peak.values())
        return {
            "exact": max(0, self._peak - doubtful),
            **self._at_peak,
            "above": max(0, int(self._highest) - self._peak),
            "largest": int(self._largest),
        }
