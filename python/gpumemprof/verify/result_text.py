"""The comparison of predictions with measurements, as text and JSON."""

from __future__ import annotations

import json

from gpumemprof import _core
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


def _rows(result: RemedyResult) -> list[list[str]]:
    rows = []
    for peak in (result.allocated, result.reserved):
        if peak.measured_bytes is None:
            continue
        band = peak.predicted.band
        rows.append(
            [
                result.name if peak.kind == "allocated" else "",
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
    lines = [f"{result.name}: {', '.join(effect.what for effect in result.effects)}"]
    if result.prediction.allocated.predicted_bytes is None:
        lines.append(f"  Not predicted: {result.prediction.why}")
    if result.slowdown_pct is not None:
        slowdown = result.prediction.slowdown_pct
        predicted = "" if slowdown is None else f" (predicted {slowdown:+.0f} %)"
        lines.append(
            f"  A step takes {result.measured.step} instead of {result.baseline.step}: "
            f"{_percent(result.slowdown_pct)}{predicted}"
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
            *_table([_HEAD, *(row for result in compared for row in _rows(result))]),
            "",
        ]
    for result in compared:
        lines += _sentence(result)
    return "\n".join(lines)
