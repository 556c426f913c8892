"""How exact a prediction is: between which figures the real peaks are expected."""

from __future__ import annotations

from dataclasses import dataclass

from gpumemprof.estimate.command.prediction import Prediction

__all__ = ["Band", "Bands", "bands"]

_MIB = 1 << 20


@dataclass(frozen=True)
class _Unexplained:
    """By how much both peaks may be off beside what the rules say of themselves."""

    allocated_share: float
    reserved_share: float
    segment_bytes: int
    """The pool grows by whole segments: one may be there or not."""


# Everything is exact: what comparisons with a GPU left unexplained.
_EXACT = _Unexplained(0.001, 0.01, 2 * _MIB)
# Values were assumed that may decide how much is computed.
_ASSUMED = _Unexplained(0.01, 0.05, 20 * _MIB)
# A large block may have another size, and takes another gap then, which moves whole segments. Peaks
# of reserved memory were off by up to 16 % where allocated memory was off by a tenth of a percent.
_INEXACT = _Unexplained(0.01, 0.16, 20 * _MIB)
# It is not known which rules were used.
_UNKNOWN = _Unexplained(0.05, 0.16, 20 * _MIB)
# Smaller ones share segments of 2 MiB with others.
_LARGE_BLOCK_BYTES = _MIB
# Small blocks that no rule knows: buffers of kernels, and those of libraries.
_LEAST_ALLOCATED_BYTES = _MIB
# How far a fitted rule was off, at worst, where it was compared with a GPU.
_FITTED_SHARE = 0.25

# How far predictions were off, at worst, where programs with such an assumption were compared with
# a GPU: shares of allocated and of reserved bytes, below and above.
_SHARES_BY_KIND = {
    "workspace": ((0.16, 0.18), (0.18, 0.25)),
    "shape": ((0.5, 0.2), (0.52, 0.25)),
    "execution": ((0.45, 0.5), (0.45, 0.5)),
}
# Values that decide how much is computed; floating-point ones are mostly printed.
_HARMLESS_VALUE = "a floating-point value"

EXACT, FITTED, GUESS, UNKNOWN, ABOVE = "exact", "fitted", "guess", "unknown", "above"
LARGEST = "largest"
ABSENT = "absent"


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
    be there at all, or be twice as large. What no rule knows can only add to the prediction; what
    lives on only if an assumption holds can only be missing. Shapes that depend on values, and
    programs that are run in another way, widen it by a share. Reserved memory also depends on where
    the driver places segments, which is not known.
    """
    certainty = prediction.certainty or {}
    fitted = int(certainty.get(FITTED, 0) * _FITTED_SHARE)
    guess = certainty.get(GUESS, 0)
    unknown = certainty.get(UNKNOWN, 0)
    below = fitted + guess + certainty.get(ABSENT, 0)
    # With more than predicted, the peak may be at another moment.
    above = max(fitted + guess, certainty.get(ABOVE, 0)) + unknown

    kinds = {assumption.kind for assumption in prediction.assumptions}
    wider = [shares for kind, shares in _SHARES_BY_KIND.items() if kind in kinds]
    rest = _unexplained(prediction)

    def band(count: int, share: float, least: int, shares: list[tuple[float, float]]) -> Band:
        low = max([share, *(down for down, _ in shares)])
        high = max([share, *(up for _, up in shares)])
        return Band(
            max(0, count - max(int(count * low), least) - below),
            count + max(int(count * high), least) + above,
        )

    reserved = band(
        prediction.reserved_bytes,
        rest.reserved_share,
        rest.segment_bytes,
        [shares[1] for shares in wider],
    )
    if prediction.reserved_range is not None:
        low, high = prediction.reserved_range
        reserved = Band(min(reserved.low_bytes, low), max(reserved.high_bytes, high))
    return Bands(
        band(
            prediction.allocated_bytes,
            rest.allocated_share,
            _LEAST_ALLOCATED_BYTES,
            [shares[0] for shares in wider],
        ),
        reserved,
        prediction.certainty is not None,
    )


def _unexplained(prediction: Prediction) -> _Unexplained:
    if prediction.certainty is None:
        return _UNKNOWN
    kinds = {each.kind for each in prediction.assumptions}
    if prediction.certainty.get(LARGEST, 0) >= _LARGE_BLOCK_BYTES or kinds & set(_SHARES_BY_KIND):
        return _INEXACT
    is_assumed = any(
        each.kind == "value" and not each.text.startswith(_HARMLESS_VALUE)
        for each in prediction.assumptions
    )
    return _ASSUMED if is_assumed else _EXACT
