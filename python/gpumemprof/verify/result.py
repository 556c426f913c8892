"""What a run with a remedy showed, compared with what the advice predicted."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from gpumemprof.read.json_advice import BandJson, RemedyJson
from gpumemprof.verify.apply import Effect

__all__ = [
    "NO_TIME",
    "Band",
    "Baseline",
    "Measured",
    "PeakComparison",
    "PredictedPeak",
    "Prediction",
    "RemedyResult",
    "StepTime",
]


def duration(seconds: float) -> str:
    """``316 ms``."""
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


@dataclass(frozen=True)
class StepTime:
    """How long a step takes; half of the steps are between `low_seconds` and `high_seconds`."""

    seconds: float
    low_seconds: float | None = None
    high_seconds: float | None = None
    """``None`` where single steps are not known."""

    def __str__(self) -> str:
        """``316 ms (290 ms to 350 ms)``."""
        if self.low_seconds is None or self.high_seconds is None:
            return duration(self.seconds)
        between = f"{duration(self.low_seconds)} to {duration(self.high_seconds)}"
        return f"{duration(self.seconds)} ({between})"

    def to_json(self) -> dict[str, float | None]:
        """As ``--json`` prints it."""
        return {
            "step_seconds": self.seconds,
            "step_seconds_low": self.low_seconds,
            "step_seconds_high": self.high_seconds,
        }


NO_TIME = {"step_seconds": None, "step_seconds_low": None, "step_seconds_high": None}


@dataclass(frozen=True)
class Baseline:
    """The program without remedies."""

    program: str
    path: str | None
    """The recording the user named; ``None``: the program was run for it."""
    device: str
    peak_allocated_bytes: int
    peak_reserved_bytes: int | None
    """``None`` on the CPU, which has no pool."""
    step: StepTime | None


@dataclass(frozen=True)
class Measured:
    """The program with a remedy."""

    peak_allocated_bytes: int | None
    peak_reserved_bytes: int | None
    step: StepTime | None
    allocator_settings: str = ""


@dataclass(frozen=True)
class Band:
    """Where the advice expects a figure."""

    low_bytes: int
    high_bytes: int


@dataclass(frozen=True)
class PredictedPeak:
    """What the advice predicts for one kind of peak; ``None`` where it predicts nothing."""

    predicted_bytes: int | None = None
    band: Band | None = None


@dataclass(frozen=True)
class Prediction:
    """What the advice predicts for a remedy, or for several together."""

    allocated: PredictedPeak
    reserved: PredictedPeak
    slowdown_pct: float | None
    why: str | None

    @classmethod
    def from_json(cls, remedy: RemedyJson) -> Prediction:
        """Build from an entry of ``remedies`` in the JSON advice."""

        def peak(size_bytes: int | None, band: BandJson | None) -> PredictedPeak:
            bounds = None if band is None else Band(band["low_bytes"], band["high_bytes"])
            return PredictedPeak(size_bytes, bounds)

        return cls(
            peak(remedy["predicted_peak_allocated_bytes"], remedy["predicted_peak_allocated_band"]),
            peak(remedy["predicted_peak_reserved_bytes"], remedy["predicted_peak_reserved_band"]),
            remedy["slowdown_pct"],
            remedy["why"],
        )

    @classmethod
    def unknown(cls, why: str) -> Prediction:
        """No figure, and the reason."""
        return cls(PredictedPeak(), PredictedPeak(), None, why)


@dataclass(frozen=True)
class PeakComparison:
    """One kind of peak, ``allocated`` or ``reserved``, predicted and measured."""

    kind: str
    predicted: PredictedPeak
    measured_bytes: int | None

    @property
    def error_pct(self) -> float | None:
        """How much too high the prediction was, in percent."""
        if self.predicted.predicted_bytes is None or self.measured_bytes is None:
            return None
        return 100 * (self.predicted.predicted_bytes / self.measured_bytes - 1)

    @property
    def is_in_band(self) -> bool | None:
        """Whether the measurement lies in the predicted band."""
        band = self.predicted.band
        if self.error_pct is None or self.measured_bytes is None or band is None:
            return None
        return band.low_bytes <= self.measured_bytes <= band.high_bytes

    def to_json(self) -> dict[str, Any]:
        """As ``--json`` prints it."""
        band = self.predicted.band
        return {
            f"predicted_peak_{self.kind}_bytes": self.predicted.predicted_bytes,
            f"predicted_peak_{self.kind}_band": None if band is None else asdict(band),
            f"measured_peak_{self.kind}_bytes": self.measured_bytes,
            f"{self.kind}_error_pct": self.error_pct,
            f"is_{self.kind}_in_band": self.is_in_band,
        }


@dataclass(frozen=True)
class RemedyResult:
    """One run with one or several remedies."""

    names: list[str]
    prediction: Prediction
    measured: Measured
    effects: list[Effect]
    baseline: Baseline

    @property
    def name(self) -> str:
        """``checkpointing + fused``."""
        return " + ".join(self.names)

    @property
    def without_effect(self) -> str | None:
        """A sentence if a remedy changed nothing, so that there is nothing to compare."""
        for effect in self.effects:
            if effect.count == 0:
                return f"{effect.name} changed nothing in this program: {effect.what}"
            settings = self.measured.allocator_settings.lower().replace('"', "").replace(" ", "")
            if effect.name == "expandable_segments" and f"{effect.name}:true" not in settings:
                return (
                    f"{effect.name} changed nothing in this program, "
                    "which sets its own allocator settings"
                )
        if not self.effects:
            return f"what {self.name} changed is not known: the program ended without reporting it"
        return None

    @property
    def slowdown_pct(self) -> float | None:
        """How much longer a step took, in percent."""
        before, after = self.baseline.step, self.measured.step
        if before is None or after is None:
            return None
        return 100 * (after.seconds / before.seconds - 1)

    @property
    def allocated(self) -> PeakComparison:
        """The peak of allocated bytes."""
        return self._compare(
            "allocated", self.prediction.allocated, self.measured.peak_allocated_bytes
        )

    @property
    def reserved(self) -> PeakComparison:
        """The peak of reserved bytes."""
        return self._compare(
            "reserved", self.prediction.reserved, self.measured.peak_reserved_bytes
        )

    def _compare(self, kind: str, predicted: PredictedPeak, measured: int | None) -> PeakComparison:
        is_compared = self.without_effect is None
        return PeakComparison(kind, predicted, measured if is_compared else None)

    def to_json(self) -> dict[str, Any]:
        """As ``--json`` prints it."""
        is_compared = self.without_effect is None
        return {
            "name": self.name,
            "applied": [effect.what for effect in self.effects] if is_compared else None,
            "without_effect": self.without_effect,
            **self.allocated.to_json(),
            **self.reserved.to_json(),
            "predicted_slowdown_pct": self.prediction.slowdown_pct,
            "measured_slowdown_pct": self.slowdown_pct if is_compared else None,
            **(self.measured.step.to_json() if is_compared and self.measured.step else NO_TIME),
            "why": self.prediction.why,
        }
