"""The report on jobs as JSON; see `json_ranks` for its keys."""

from __future__ import annotations

from gpumemprof.ranks.compare.failures import Failure
from gpumemprof.ranks.compare.groups import Group
from gpumemprof.ranks.compare.outliers import Excess, Outlier
from gpumemprof.ranks.compare.statistics import median
from gpumemprof.ranks.compare.steps import Imbalance
from gpumemprof.ranks.compare.uneven import UnevenPlace
from gpumemprof.ranks.json_ranks import (
    ExcessJson,
    FailureJson,
    ImbalanceJson,
    JobJson,
    OutlierJson,
    RankJson,
    RanksJson,
    UnevenGroupJson,
)
from gpumemprof.ranks.report import JobReport, RanksReport
from gpumemprof.ranks.summary import RankSummary

__all__ = ["as_json"]

_SCHEMA_VERSION = 1


def as_json(report: RanksReport) -> RanksJson:
    """All jobs, the newest first."""
    return {
        "schema_version": _SCHEMA_VERSION,
        "problems": report.problems,
        "notes": report.notes,
        "jobs": [_job(job) for job in report.jobs],
    }


def _job(report: JobReport) -> JobJson:
    job, failures, leaks = report.job, report.failures, report.leaks
    groups = report.grouping.groups
    numbers = {id(group): number for number, group in enumerate(groups)}
    of_rank = {id(one): number for number, group in enumerate(groups) for one in group.ranks}
    nearest = report.nearest
    return {
        "job": job.ranks[0].job,
        "restart": job.ranks[0].restart_count,
        "command": job.command,
        "world_size": job.world_size,
        "missing_ranks": job.missing,
        "notes": job.notes,
        "nearest_rank": None if nearest is None else nearest.rank,
        "headroom_bytes": None if nearest is None else nearest.headroom_bytes,
        "is_headroom_at_most": nearest is not None and nearest.is_headroom_bound,
        "compared_by": report.grouping.basis,
        "dimensions": list(report.grouping.dimensions),
        "groups": [
            {
                "name": group.name,
                "coordinates": dict(group.key),
                "ranks": [one.rank for one in group.ranks],
                "median_peak_bytes": _median_peak(group),
            }
            for group in groups
        ],
        "outliers": [_outlier(one, numbers[id(one.group)]) for one in report.outliers],
        "uneven_groups": [_uneven(one, numbers[id(one.group)]) for one in report.uneven_places],
        "imbalance": _imbalance(report.imbalance),
        "failures": {
            "first": None if failures.first is None else _failure(failures.first),
            "candidates": [one.rank.rank for one in failures.candidates],
            "doubt": failures.doubt or None,
            "also": [_failure(one) for one in failures.also],
            "followed": [_failure(one) for one in failures.followed],
            "ranks_without_end": len(failures.without_end),
            "silent_first": None if failures.silent_ns is None else failures.without_end[0].rank,
        },
        "leaks": {
            "ranks": [one.rank for one in leaks.ranks],
            "judged_ranks": leaks.judged,
            "unknown_ranks": leaks.unknown,
            "bytes_per_step": leaks.bytes_per_step,
            "line": leaks.line,
            "first_step": leaks.first_step,
        },
        "ranks": [_rank(one, of_rank[id(one)]) for one in job.ranks],
    }


def _median_peak(group: Group) -> int | None:
    peaks = sorted(one.peak_bytes for one in group.ranks if one.peak_bytes is not None)
    return round(median(peaks)) if peaks else None


def _rank(rank: RankSummary, group: int) -> RankJson:
    return {
        "rank": rank.rank,
        "local_rank": rank.local_rank,
        "host": rank.host,
        "card": rank.card,
        "device": rank.device,
        "mesh": {one.name: one.coordinate for one in rank.mesh},
        "group": group,
        "peak_bytes": rank.peak_bytes,
        "peak_step": rank.peak_step,
        "peak_phase": rank.peak_phase,
        "reserved_bytes": rank.reserved_bytes,
        "outside_bytes": rank.outside_bytes,
        "nccl_bytes": rank.nccl_bytes,
        "nccl_provenance": rank.nccl_provenance,
        "headroom_bytes": rank.headroom_bytes,
        "retries": rank.retries,
        "ooms": rank.ooms,
        "last_step": rank.last_step,
        "is_exact": rank.is_exact,
        "is_whole": rank.is_whole,
        "sources": rank.sources,
        "recording": rank.recording,
        "summary": rank.path if rank.has_file else None,
    }


def _excess(excess: Excess) -> ExcessJson:
    return {
        "name": excess.name,
        "bytes": excess.bytes,
        "more_bytes": excess.more_bytes,
        "is_at_least": excess.is_bound,
    }


def _outlier(outlier: Outlier, group: int) -> OutlierJson:
    return {
        "rank": outlier.rank.rank,
        "group": group,
        "figure": outlier.figure,
        "bytes": outlier.bytes,
        "median_bytes": outlier.median_bytes,
        "more_bytes": outlier.more_bytes,
        "step": outlier.rank.peak_step if outlier.figure == "peak_bytes" else None,
        "is_one_of_two": outlier.is_pair,
        "sources": [_excess(one) for one in outlier.sources],
        "modules": [_excess(one) for one in outlier.modules],
        "lines": [_excess(one) for one in outlier.sites],
    }


def _uneven(place: UnevenPlace, group: int) -> UnevenGroupJson:
    more = place.more
    return {
        "name": place.name,
        "group": group,
        "dimension": place.dimension,
        "ranks": [one.rank for one in place.ranks],
        "median_bytes": place.median_bytes,
        "others_bytes": place.others_bytes,
        "is_one_of_two": place.is_pair,
        "heaviest_rank": place.heaviest.rank,
        "step": place.heaviest.peak_step,
        "sources": [] if more is None else [_excess(one) for one in more.sources],
        "modules": [] if more is None else [_excess(one) for one in more.modules],
        "lines": [] if more is None else [_excess(one) for one in more.sites],
    }


def _imbalance(found: Imbalance) -> ImbalanceJson:
    worst = found.worst
    return {
        "compared_steps": len(found.compared),
        "uneven_steps": len(found.uneven),
        "worst_step": None if worst is None else worst.step,
        "worst_rank": None if worst is None else worst.rank.rank,
        "worst_more_bytes": None if worst is None else worst.more_bytes,
        "heaviest_ranks": {
            title.removeprefix("rank "): count for title, count in found.heaviest.most_common()
        },
    }


def _failure(failure: Failure) -> FailureJson:
    return {
        "rank": failure.rank.rank,
        "kind": failure.kind,
        "type": failure.rank.ending.failure_type,
        "unix_ns": failure.unix_ns,
        "step": failure.step,
        "line": failure.line,
        "cause": None if failure.oom is None else failure.oom.cause,
    }
