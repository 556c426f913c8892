"""Everything that the page shows about a job; see `page_json` for its keys."""

from __future__ import annotations

from collections.abc import Iterable

from gpumemprof.ranks.compare.outliers import Excess, Outlier, compare_with_group
from gpumemprof.ranks.compare.statistics import median
from gpumemprof.ranks.page.cells import Cells
from gpumemprof.ranks.page.page_json import (
    CellsJson,
    GroupPageJson,
    JobPageJson,
    MarkJson,
    MarksJson,
    MoreJson,
    RankColumnsJson,
    SaidJson,
    WorstJson,
)
from gpumemprof.ranks.report import JobReport
from gpumemprof.ranks.sentences import (
    Said,
    about_communicators,
    about_failures,
    about_imbalance,
    about_leaks,
    about_outliers,
    about_uneven_places,
    nearest_sentence,
    title_sentence,
)
from gpumemprof.ranks.summary import RankSummary
from gpumemprof.ranks.table import rank_name

__all__ = ["job_page"]


def job_page(report: JobReport, cells: Cells) -> JobPageJson:
    """One job."""
    ranks = report.job.ranks
    places = {id(one): place for place, one in enumerate(ranks)}
    sections = (
        about_outliers,
        about_uneven_places,
        about_imbalance,
        about_communicators,
        about_leaks,
    )
    return {
        "title": title_sentence(report),
        "nearest": nearest_sentence(report),
        "notes": [f"{note[0].upper()}{note[1:]}." for note in report.job.notes],
        "failures": _said(about_failures(report)),
        "findings": [_said(found) for section in sections if (found := section(report))],
        "world_size": report.job.world_size,
        "dimensions": list(report.grouping.dimensions),
        "groups": _groups(report, places),
        "ranks": _rank_columns(report),
        "marks": _marks(report, places),
        "worst": _worst(report, places),
        "cells": _cells(cells),
    }


def _said(sentences: Iterable[Said]) -> list[SaidJson]:
    return [{"text": one.text, "is_detail": one.is_detail} for one in sentences]


def _cells(cells: Cells) -> CellsJson:
    return {
        "first_steps": cells.first_steps,
        "last_steps": cells.last_steps,
        "step_count": cells.step_count,
        "unit_bytes": cells.unit_bytes,
        "rows": cells.rows,
    }


def _groups(report: JobReport, places: dict[int, int]) -> list[GroupPageJson]:
    rows: list[GroupPageJson] = []
    for group in report.grouping.groups:
        known = [one for one in group.ranks if one.peak_bytes is not None]
        worst = max(known, key=lambda one: one.peak_bytes or 0, default=None)
        peaks = sorted(one.peak_bytes or 0 for one in known)
        rows.append(
            {
                "name": group.name,
                "coordinates": [place for _, place in group.key],
                "median_peak_bytes": round(median(peaks)) if peaks else None,
                "largest_peak_bytes": None if worst is None else worst.peak_bytes,
                "largest_rank": None if worst is None else places[id(worst)],
            }
        )
    return rows


def _limit(rank: RankSummary) -> int | None:
    """What the pool of this rank may take at most."""
    if rank.total_bytes is None:
        return None
    return int(rank.total_bytes * (rank.memory_fraction or 1.0))


def _rank_columns(report: JobReport) -> RankColumnsJson:
    ranks = report.job.ranks
    of_rank = {
        id(one): number
        for number, group in enumerate(report.grouping.groups)
        for one in group.ranks
    }
    return {
        "rank": [one.rank for one in ranks],
        "name": [rank_name(one) for one in ranks],
        "host": [one.host for one in ranks],
        "device": [one.device for one in ranks],
        "card": [one.card for one in ranks],
        "group": [of_rank[id(one)] for one in ranks],
        "total_bytes": [one.total_bytes for one in ranks],
        "limit_bytes": [_limit(one) for one in ranks],
        "peak_bytes": [one.peak_bytes for one in ranks],
        "peak_step": [one.peak_step for one in ranks],
        "reserved_bytes": [one.reserved_bytes for one in ranks],
        "outside_bytes": [one.outside_bytes for one in ranks],
        "headroom_bytes": [one.headroom_bytes for one in ranks],
        "retries": [one.retries for one in ranks],
        "recording": [one.recording for one in ranks],
        "path": [one.path if one.recording is None else None for one in ranks],
    }


def _marks(report: JobReport, places: dict[int, int]) -> MarksJson:
    failures = report.failures
    first = failures.first
    nearest = report.nearest or report.largest
    return {
        "nearest": None if nearest is None else places[id(nearest)],
        "outliers": [
            {
                "place": places[id(one.rank)],
                "step": one.rank.peak_step if one.figure == "peak_bytes" else None,
                "figure": one.figure.removesuffix("_bytes"),
            }
            for one in report.outliers
        ],
        "failed_first": None
        if first is None
        else {"place": places[id(first.rank)], "step": first.step, "figure": first.kind},
        "silent_first": _silent(report, places),
        "also_failed": [
            {"place": places[id(one.rank)], "step": one.step, "figure": one.kind}
            for one in failures.also
        ],
        "followed": [places[id(one.rank)] for one in failures.followed],
        "leaking": [places[id(one)] for one in report.leaks.ranks],
    }


def _silent(report: JobReport, places: dict[int, int]) -> MarkJson | None:
    """The rank that was probably killed."""
    failures = report.failures
    if failures.silent_ns is None:
        return None
    rank = failures.without_end[0]
    return {"place": places[id(rank)], "step": rank.last_step, "figure": "silent"}


def _worst(report: JobReport, places: dict[int, int]) -> WorstJson | None:
    """The largest outlier; if there is none, the rank that is nearest to its limit."""
    found: Outlier | None = None
    peaks = [one for one in report.outliers if one.figure == "peak_bytes"]
    if peaks:
        found = peaks[0]
    else:
        rank = report.nearest or report.largest
        found = None if rank is None else compare_with_group(rank, report.grouping.of(rank))
    if found is None:
        return None
    return {
        "place": places[id(found.rank)],
        "is_outlier": bool(peaks),
        "is_one_of_two": found.is_pair,
        "group": found.group.name,
        "ranks": len(found.group.ranks),
        "bytes": found.bytes,
        "more_bytes": found.more_bytes,
        "sources": [{**_more(one), "name": one.name.replace("_", " ")} for one in found.sources],
        "modules": [_more(one) for one in found.modules],
        "lines": [_more(one) for one in found.sites],
    }


def _more(excess: Excess) -> MoreJson:
    return {
        "name": excess.name,
        "bytes": excess.bytes,
        "more_bytes": excess.more_bytes,
        "is_at_least": excess.is_bound,
    }
