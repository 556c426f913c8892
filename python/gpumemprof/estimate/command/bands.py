"""How exact a prediction is: between which figures the real peaks are expected."""

from __future__ import annotations

from dataclasses import dataclass

from gpumemprof.estimate.command.prediction import Prediction

__all__ = ["Band", "Bands", "bands"]

# What remains unexplained where every rule is exact.
_ALLOCATED_SHARE = 0.001
_RESERVED_SHARE = 0.01
# If it is not known which rules were used.
_UNKNOWN_ALLOCATED_SHARE = 0.05
_UNKNOWN_RESERVED_SHARE = 0.1
# How far a fitted rule was off, at worst, where it was compared with a GPU.
_FITTED_SHARE = 0.25

# How far predictions were off, at worst, where programs with such an assumption were compared with
# a GPU: shares of allocated and of reserved bytes, below and above.
_SHARES_BY_KIND = {
    "workspace": ((0.16, 0.18), (0.18, 0.25)),
    "shape": ((0.5, 0.2), (0.5, 0.2)),
    "execution": ((0.45, 0.5), (0.45, 0.5)),
}

EXACT, FITTED, GUESS, UNKNOWN, ABOVE = "exact", "fitted", "guess", "unknown", "above"


@dataclass(frozen=True)
class Band:
    """The real figure is expected in here."""

    low_bytes: int
    high_bytes: int

    def to_json(self) -> dict[str, int]:
        """As ``--json`` prints it."""
        return {"low_bytes": self.low_bytes, "high_bytes": self.high_bytes}


@dataclass(frozen=True)
class Bands:
    """Of both peaks."""

    allocated: Band
    reserved: Band
    is_certainty_known: bool
    """Whether the program's process could report which rules were used."""

    def more_bytes(self, prediction: Prediction) -> int:
        """By how much the smallest pool that is enough may be larger than predicted."""
        return self.allocated.high_bytes - prediction.allocated_bytes


def bands(prediction: Prediction) -> Bands:
    """The bands of the peaks.

    A fitted workspace may be a quarter larger or smaller than its rule says. A guessed one may not
    be there at all, or be twice as large. What no rule knows can only add to the prediction. Shapes
    that depend on values, and programs that are run in another way, widen it by a share.
    """
    is_known = prediction.certainty is not None
    certainty = prediction.certainty or {}
    fitted = int(certainty.get(FITTED, 0) * _FITTED_SHARE)
    guess = certainty.get(GUESS, 0)
    unknown = certainty.get(UNKNOWN, 0)
    below = fitted + guess
    # With more than predicted, the peak may be at another moment.
    above = max(below, certainty.get(ABOVE, 0)) + unknown

    kinds = {assumption.kind for assumption in prediction.assumptions}
    wider = [shares for kind, shares in _SHARES_BY_KIND.items() if kind in kinds]

    def band(count: int, share: float, shares: list[tuple[float, float]]) -> Band:
        low = max([share, *(down for down, _ in shares)])
        high = max([share, *(up for _, up in shares)])
        return Band(max(0, int(count * (1 - low)) - below), int(count * (1 + high)) + above)

    allocated = _ALLOCATED_SHARE if is_known else _UNKNOWN_ALLOCATED_SHARE
    reserved = _RESERVED_SHARE if is_known else _UNKNOWN_RESERVED_SHARE
    return Bands(
        band(prediction.allocated_bytes, allocated, [shares[0] for shares in wider]),
        band(prediction.reserved_bytes, reserved, [shares[1] for shares in wider]),
        is_known,
    )
