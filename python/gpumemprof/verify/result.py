"""Compares predictions with measurements: what `verify` finds, as text and JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from gpumemprof import _core
from gpumemprof.verify.apply import Effect

__all__ = ["Baseline", "Measured", "StepTime", "Verdict", "as_json", "as_text"]

_SCHEMA_VERSION = 1


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
            return _duration(self.seconds)
        between = f"{_duration(self.low_seconds)} to {_duration(self.high_seconds)}"
        return f"{_duration(self.seconds)} ({between})"

    def to_json(self) -> dict[str, float | None]:
        """As ``--json`` prints it."""
        return {
            "step_seconds": self.seconds,
            "step_seconds_low": self.low_seconds,
            "step_seconds_high": self.high_seconds,
        }


_NO_TIME = {"step_seconds": None, "step_seconds_low": None, "step_seconds_high": None}


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
class Verdict:
    """One run with one or several remedies."""

    names: list[str]
    prediction: dict[str, Any]
    """Of the advice, in its words; without its figures where it has none."""
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
                return f"{effect.name} changed nothing in this program: it sets others itself"
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

    def figure(self, kind: str) -> dict[str, Any]:
        """The predicted and measured ``allocated`` or ``reserved`` bytes."""
        predicted = self.prediction.get(f"predicted_peak_{kind}_bytes")
        band = self.prediction.get(f"predicted_peak_{kind}_band")
        measured = getattr(self.measured, f"peak_{kind}_bytes")
        if self.without_effect is not None:
            measured = None
        is_both = predicted is not None and measured is not None
        return {
            f"predicted_peak_{kind}_bytes": predicted,
            f"predicted_peak_{kind}_band": band,
            f"measured_peak_{kind}_bytes": measured,
            f"{kind}_error_pct": 100 * (predicted / measured - 1) if is_both else None,
            f"is_{kind}_in_band": (
                band["low_bytes"] <= measured <= band["high_bytes"] if is_both and band else None
            ),
        }

    def to_json(self) -> dict[str, Any]:
        """As ``--json`` prints it."""
        is_compared = self.without_effect is None
        return {
            "name": self.name,
            "applied": [effect.what for effect in self.effects] if is_compared else None,
            "without_effect": self.without_effect,
            **self.figure("allocated"),
            **self.figure("reserved"),
            "predicted_slowdown_pct": self.prediction.get("slowdown_pct"),
            "measured_slowdown_pct": self.slowdown_pct if is_compared else None,
            **(self.measured.step.to_json() if is_compared and self.measured.step else _NO_TIME),
            "why": self.prediction.get("why"),
        }


def as_json(baseline: Baseline, verdicts: list[Verdict]) -> str:
    """The whole comparison as a JSON object."""
    return json.dumps(
        {
            "schema_version": _SCHEMA_VERSION,
            "program": baseline.program,
            "device": baseline.device,
            "baseline": {
                "path": baseline.path,
                "peak_allocated_bytes": baseline.peak_allocated_bytes,
                "peak_reserved_bytes": baseline.peak_reserved_bytes,
                **(baseline.step.to_json() if baseline.step else _NO_TIME),
            },
            "verified": [verdict.to_json() for verdict in verdicts],
        },
        indent=2,
    )


def size(count: int | None) -> str:
    """Format bytes as the advice does.

    >>> size(2888000000), size(68157440), size(100), size(None)
    ('2.69 GiB', '65.0 MiB', '100 B', '-')
    """
    return "-" if count is None else _core.format_bytes(count)


def _percent(value: float | None) -> str:
    return "?" if value is None else f"{value:+.1f} %"


def _duration(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def _rows(verdict: Verdict) -> list[list[str]]:
    rows = []
    for kind in ("allocated", "reserved"):
        figure = verdict.figure(kind)
        measured = figure[f"measured_peak_{kind}_bytes"]
        if measured is None:
            continue
        band = figure[f"predicted_peak_{kind}_band"]
        is_in = figure[f"is_{kind}_in_band"]
        rows.append(
            [
                verdict.name if kind == "allocated" else "",
                kind,
                size(figure[f"predicted_peak_{kind}_bytes"]),
                "-" if band is None else f"{size(band['low_bytes'])} - {size(band['high_bytes'])}",
                size(measured),
                _percent(figure[f"{kind}_error_pct"]),
                "-" if is_in is None else "yes" if is_in else "NO",
            ]
        )
    return rows


_HEAD = ["remedy", "peak", "predicted", "between", "measured", "error", "in"]
_IS_TEXT = [True, True, False, True, False, False, True]


def _table(rows: list[list[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if is_text else cell.rjust(width)
            for cell, width, is_text in zip(row, widths, _IS_TEXT)
        ]
        lines.append("  " + "  ".join(cells).rstrip())
    return lines


def _sentence(verdict: Verdict) -> list[str]:
    lines = [f"{verdict.name}: {', '.join(effect.what for effect in verdict.effects)}"]
    if verdict.figure("allocated")["predicted_peak_allocated_bytes"] is None:
        lines.append(f"  Not predicted: {verdict.prediction.get('why')}")
    if verdict.slowdown_pct is not None:
        told = verdict.prediction.get("slowdown_pct")
        predicted = "" if told is None else f" (predicted {told:+.0f} %)"
        lines.append(
            f"  A step takes {verdict.measured.step} instead of {verdict.baseline.step}: "
            f"{_percent(verdict.slowdown_pct)}{predicted}"
        )
    return lines


def as_text(baseline: Baseline, verdicts: list[Verdict]) -> str:
    """The whole comparison as human-readable text."""
    reserved = baseline.peak_reserved_bytes
    lines = [
        f"{baseline.program}: predicted against measured",
        f"{baseline.device}: peak {size(baseline.peak_allocated_bytes)} allocated"
        + ("" if reserved is None else f", {size(reserved)} reserved")
        + f" as it is{'' if baseline.path is None else f' ({baseline.path})'}",
    ]
    compared = [verdict for verdict in verdicts if verdict.without_effect is None]
    if compared:
        lines += [
            "",
            *_table([_HEAD, *(row for verdict in compared for row in _rows(verdict))]),
            "",
        ]
    for verdict in compared:
        lines += _sentence(verdict)
    return "\n".join(lines)
