"""The comparison of predictions with measurements, as text and JSON."""

from __future__ import annotations

import json

from gpumemprof import _core
from gpumemprof.estimate.command.page import paragraph
from gpumemprof.estimate.command.table import table
from gpumemprof.verify.result import NO_TIME, Baseline, RemedyResult

__all__ = ["as_json", "as_text", "size"]

_SCHEMA_VERSION = 1


def as_json(baseline: Baseline, results: list[RemedyResult]) -> str:
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
                **(baseline.step.to_json() if baseline.step else NO_TIME),
            },
            "verified": [result.to_json() for result in results],
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


_HEAD = ["peak", "predicted", "between", "measured", "error", "in band"]
_IS_TEXT = [True, False, True, False, False, True]


def _table(results: list[RemedyResult]) -> list[str]:
    """Names of remedies have lines of their own: they can be long."""
    rows = [_rows(result) for result in results]
    lines = table([_HEAD, *(row for each in rows for row in each)], _IS_TEXT)
    page = ["  " + lines.pop(0)]
    for result, each in zip(results, rows):
        page.append(f"  {result.name}")
        page += ["  " + lines.pop(0) for _ in each]
    return page


def _rows(result: RemedyResult) -> list[list[str]]:
    rows = []
    for peak in (result.allocated, result.reserved):
        if peak.measured_bytes is None:
            continue
        band = peak.predicted.band
        rows.append(
            [
                peak.kind,
                size(peak.predicted.predicted_bytes),
                "-" if band is None else f"{size(band.low_bytes)} - {size(band.high_bytes)}",
                size(peak.measured_bytes),
                _percent(peak.error_pct),
                "-" if peak.is_in_band is None else "yes" if peak.is_in_band else "NO",
            ]
        )
    return rows


def _sentence(result: RemedyResult) -> list[str]:
    lines = paragraph(f"{result.name}: {', '.join(effect.what for effect in result.effects)}")
    if result.prediction.allocated.predicted_bytes is None:
        lines += paragraph(f"Not predicted: {result.prediction.why}", 2)
    if result.slowdown_pct is not None:
        slowdown = result.prediction.slowdown_pct
        predicted = "" if slowdown is None else f" (predicted {slowdown:+.0f} %)"
        lines += paragraph(
            f"A step takes {result.measured.step} instead of {result.baseline.step}: "
            f"{_percent(result.slowdown_pct)}{predicted}",
            2,
        )
    return lines


def as_text(baseline: Baseline, results: list[RemedyResult]) -> str:
    """The whole comparison as human-readable text."""
    reserved = baseline.peak_reserved_bytes
    lines = [
        f"{baseline.program}: predicted and measured memory",
        f"{baseline.device}: peak {size(baseline.peak_allocated_bytes)} allocated"
        + ("" if reserved is None else f", {size(reserved)} reserved")
        + f" as it is{'' if baseline.path is None else f' ({baseline.path})'}",
    ]
    compared = [result for result in results if result.without_effect is None]
    if compared:
        lines += [
            "",
            *_table(compared),
            "",
        ]
    for result in compared:
        lines += _sentence(result)
    return "\n".join(lines)
