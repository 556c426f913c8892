"""JobReport: everything that is found about one job."""

from __future__ import annotations

from dataclasses import dataclass

from gpumemprof.ranks.compare.clocks import find_clock_offsets
from gpumemprof.ranks.compare.failures import Failures, find_failures
from gpumemprof.ranks.compare.groups import Grouping, find_groups
from gpumemprof.ranks.compare.leaks import Leaks, find_leaks
from gpumemprof.ranks.compare.outliers import Outlier, find_outliers
from gpumemprof.ranks.compare.steps import Imbalance, find_imbalance
from gpumemprof.ranks.compare.uneven import UnevenPlace, find_uneven_places
from gpumemprof.ranks.jobs import Job, find_jobs
from gpumemprof.ranks.read import Found
from gpumemprof.ranks.summary import RankSummary

__all__ = ["JobReport", "RanksReport", "make_report"]


@dataclass
class JobReport:
    """One job."""

    job: Job
    nearest: RankSummary | None
    """The rank with the least headroom; None if no rank knows its card."""
    largest: RankSummary | None
    """The rank with the largest peak; None if no rank has a history."""
    grouping: Grouping
    outliers: list[Outlier]
    uneven_places: list[UnevenPlace]
    imbalance: Imbalance
    failures: Failures
    leaks: Leaks


@dataclass
class RanksReport:
    """All jobs that were found, and what could not be read."""

    jobs: list[JobReport]
    problems: list[str]
    notes: list[str]


def make_report(found: Found) -> RanksReport:
    """Compare the ranks that were read."""
    jobs = [_report_job(job) for job in find_jobs(found.ranks)]
    notes = list(found.notes)
    ranks = sum(one.rank is not None for one in found.ranks)
    if len(jobs) > 1:
        notes.insert(0, _how_many(jobs))
    for count, sentence in (
        (found.without_recording, "only the summary is here, not the recording"),
        (found.without_summary, "only the recording is here, and was read instead of a summary"),
    ):
        if count and count < ranks:
            which = "one rank" if count == 1 else f"{count:,} ranks"
            notes.append(f"of {which} {sentence}")
        elif count and count == found.without_recording:
            notes.append("there are only summaries here: recordings are needed to look closer")
    return RanksReport(jobs, found.problems, notes)


def _how_many(jobs: list[JobReport]) -> str:
    if not all(one.job.is_program for one in jobs):
        return f"there are {len(jobs)} jobs here; each is reported, the newest first"
    commands = {one.job.ranks[0].command for one in jobs}
    of = "different or unknown" if None in commands else f"{len(commands):,}"
    return (
        f"there are {len(jobs):,} recordings of {of} programs here, and none says which rank of a "
        "job it is of, so they are not compared"
    )


def _report_job(job: Job) -> JobReport:
    known = [one for one in job.ranks if one.headroom_bytes is not None]
    peaks = [one for one in job.ranks if one.peak_bytes is not None]
    grouping = find_groups(job.ranks)
    outliers = find_outliers(grouping)
    clock_offsets = find_clock_offsets(job.ranks)
    return JobReport(
        job=job,
        nearest=min(known, key=lambda one: one.headroom_bytes or 0, default=None),
        largest=max(peaks, key=lambda one: one.peak_bytes or 0, default=None),
        grouping=grouping,
        outliers=outliers,
        uneven_places=find_uneven_places(grouping, outliers),
        imbalance=find_imbalance(grouping),
        failures=find_failures(job.ranks, clock_offsets),
        leaks=find_leaks(job.ranks),
    )
