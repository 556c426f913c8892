"""The report on jobs, for people."""

from __future__ import annotations

import os
import shlex
from datetime import datetime, timezone

from gpumemprof.estimate.command.page import paragraph
from gpumemprof.estimate.command.units import size
from gpumemprof.printable import printable
from gpumemprof.ranks.failures import Failure
from gpumemprof.ranks.jobs import number_ranges
from gpumemprof.ranks.outliers import Excess, Outlier
from gpumemprof.ranks.report import JobReport, RanksReport
from gpumemprof.ranks.summary import RankSummary
from gpumemprof.ranks.table import rank_name, rank_table

__all__ = ["as_text"]

_MOST_OUTLIERS = 5
_FIGURE_NAMES = {
    "peak_bytes": "peaks at",
    "reserved_bytes": "reserves",
    "outside_bytes": "holds outside the pool",
}


def as_text(report: RanksReport) -> str:
    """All jobs, one after the other."""
    lines: list[str] = []
    for note in report.notes:
        lines += paragraph(f"Note: {note}.")
    for number, job in enumerate(report.jobs):
        if number or lines:
            lines.append("")
        lines += _job(job)
    return "\n".join(printable(line) for line in lines)


def _job(report: JobReport) -> list[str]:
    lines = [*_head(report)]
    for note in report.job.notes:
        lines += paragraph(f"Note: {note}.")
    lines += ["", *rank_table(report.job.ranks, report.grouping)]
    for section in (_outliers, _uneven_groups, _imbalance, _failures, _leaks):
        found = section(report)
        if found:
            lines += ["", *found]
    return [*lines, *_next(report)]


def _counted(count: int, one: str) -> str:
    return f"{count:,} {one}" if count == 1 else f"{count:,} {one}s"


def _head(report: JobReport) -> list[str]:
    job = report.job
    hosts = {one.host for one in job.ranks if one.host is not None}
    named = f" ({job.ranks[0].job})" if job.ranks[0].job else ""
    where = f" on {_counted(len(hosts), 'host')}" if hosts else ""
    steps = max((one.last_step or 0 for one in job.ranks), default=0)
    until = f", up to step {steps:,}" if steps else ""
    lines = paragraph(f"{job.command}{named}: {_counted(len(job.ranks), 'rank')}{where}{until}.")
    return [*lines, *paragraph(_nearest(report))]


def _nearest(report: JobReport) -> str:
    nearest, largest = report.nearest, report.largest
    if nearest is not None and nearest.headroom_bytes is not None:
        left = nearest.headroom_bytes
        of = "" if nearest.total_bytes is None else f" of {size(nearest.total_bytes)}"
        least = "at most " if nearest.is_headroom_bound else ""
        text = (
            f"Nearest to its limit: {rank_name(nearest)}, with {least}{size(max(0, left))}{of} left"
        )
        text += f"{_at_step(nearest.peak_step)}. That is the headroom of the job."
        unknown = sum(one.headroom_bytes is None for one in report.job.ranks)
        if unknown:
            text += f" Of {_counted(unknown, 'rank')} it is not known."
        return text
    if largest is None:
        return "No rank has a history of its memory."
    return (
        f"Largest peak: {rank_name(largest)}, {size(largest.peak_bytes or 0)}"
        f"{_at_step(largest.peak_step)}. The headroom is unknown: "
        f"{_why_no_headroom(report.job.ranks)}."
    )


def _why_no_headroom(ranks: list[RankSummary]) -> str:
    if all(one.device.startswith("cpu") for one in ranks):
        return "CPU tensors have no limit of their own"
    return "no rank recorded the size of its card"


def _at_step(step: int | None) -> str:
    return "" if step is None else f" at step {step:,}"


def _outliers(report: JobReport) -> list[str]:
    lines = paragraph(report.grouping.sentence)
    if not report.outliers:
        large = [group for group in report.grouping.groups if len(group.ranks) > 1]
        if large:
            lines += paragraph("No rank needs clearly more than the others of its group.")
        return lines
    for outlier in report.outliers[:_MOST_OUTLIERS]:
        lines += _outlier(outlier)
    if len(report.outliers) > _MOST_OUTLIERS:
        rest = [one.rank.number for one in report.outliers[_MOST_OUTLIERS:]]
        lines += paragraph(f"Further outliers: ranks {number_ranges(rest)}.")
    return lines


def _outlier(outlier: Outlier) -> list[str]:
    rank, count = outlier.rank, len(outlier.group.ranks)
    what = f"{_FIGURE_NAMES[outlier.figure]} {size(outlier.bytes)}"
    phase = f", {rank.peak_phase.replace('_', ' ')}" if rank.peak_phase else ""
    when = f"{_at_step(rank.peak_step)}{phase}" if outlier.figure == "peak_bytes" else ""
    if outlier.is_pair:
        than = "the other rank of its group (which of two is unusual cannot be told)"
    else:
        than = f"the median of the {count:,} ranks of its group ({outlier.group.name})"
    lines = paragraph(
        f"Outlier: {rank_name(rank)} {what}{when}: {size(outlier.more_bytes)} more than {than}."
    )
    for name, excesses in (
        ("by source", outlier.sources),
        ("by module", outlier.modules),
        ("by line", outlier.sites),
    ):
        if excesses:
            lines += paragraph(f"{name}: {', '.join(map(_excess, excesses))}", 2)
    return lines


def _excess(excess: Excess) -> str:
    least = "at least " if excess.is_bound else ""
    return f"{excess.name} {least}+{size(excess.more_bytes)}"


def _uneven_groups(report: JobReport) -> list[str]:
    lines: list[str] = []
    for one in report.uneven_groups[:_MOST_OUTLIERS]:
        lines += paragraph(
            f"Uneven: the ranks of {one.group.name} peak at {size(one.median_bytes)} (median), "
            f"{size(one.median_bytes - one.others_bytes)} more than the other places of "
            f"{one.dimension}."
        )
    return lines


def _imbalance(report: JobReport) -> list[str]:
    found = report.imbalance
    if not found.uneven or found.worst is None:
        return []
    worst, heaviest = found.worst, found.heaviest
    share = f"{found.uneven:,} of {found.compared:,} steps"
    text = (
        f"Imbalance: in {share} one rank needs clearly more than the median of its group; most at "
        f"step {worst.step:,}, where rank {worst.rank.number} needs {size(worst.more_bytes)} more."
    )
    if len(heaviest) == 1:
        number = worst.rank.number
        text += f" It is always rank {number}, from step {found.first_step[number]:,} on."
    else:
        number, count = heaviest.most_common(1)[0]
        text += f" {len(heaviest):,} ranks take turns; rank {number} comes most often ({count:,})."
    return paragraph(text)


def _failures(report: JobReport) -> list[str]:
    found = report.failures
    if found.first is None:
        if not found.without_end:
            return []
        which = _counted(found.without_end, "rank")
        have = "has" if found.without_end == 1 else "have"
        return paragraph(f"{which} {have} no end in the recording: killed, or still running.")
    first = found.first
    lines = paragraph(f"Failed first: {rank_name(first.rank)}, {_failure(first)}.")
    if found.doubt:
        lines += paragraph(f"This may be wrong: {found.doubt}.", 2)
    for other in found.also[:_MOST_OUTLIERS]:
        lines += paragraph(f"Also failed: {rank_name(other.rank)}, {_failure(other)}.")
    if len(found.also) > _MOST_OUTLIERS:
        lines += paragraph(f"and {len(found.also) - _MOST_OUTLIERS:,} more ranks.", 2)
    if found.followed:
        numbers = [one.rank.number for one in found.followed]
        which = f"Rank {numbers[0]}" if len(numbers) == 1 else f"Ranks {number_ranges(numbers)}"
        why = "lost the connection to another rank, or ended from outside"
        lines += paragraph(f"{which} only followed: {why}.")
    return lines


def _failure(failure: Failure) -> str:
    ending = failure.rank.ending
    if failure.kind == "out of memory":
        what = "out of memory"
        if failure.oom is not None:
            doubt = "" if failure.oom.is_proven else ", probably"
            cause = failure.oom.cause.replace("_", " ")
            what += f" ({size(failure.oom.wanted_bytes)} requested; {cause}{doubt})"
    elif failure.kind == "killed":
        what = "ended from outside"
    else:
        what = ending.failure_type or f"exit code {failure.exit_code}"
    where = f" in {failure.line}" if failure.line else ""
    return f"{what}{where}{_at_step(failure.step)}{_at_time(failure.unix_ns)}"


def _at_time(unix_ns: int | None) -> str:
    if unix_ns is None:
        return ""
    time = datetime.fromtimestamp(unix_ns / 1e9, timezone.utc)
    return time.strftime(", %Y-%m-%d %H:%M:%S.") + f"{unix_ns // 1_000_000 % 1000:03} UTC"


def _leaks(report: JobReport) -> list[str]:
    leaks = report.leaks
    if not leaks.ranks:
        if not leaks.unknown:
            return []
        return paragraph(
            f"Leaks are not known of {_counted(leaks.unknown, 'rank')}, read in windows."
        )
    count = len(leaks.ranks)
    if count == leaks.judged and count > 1:
        who = f"All {count:,} ranks leak"
    elif count == 1:
        who = f"{rank_name(leaks.ranks[0]).capitalize()} alone leaks"
    else:
        numbers = number_ranges(one.number for one in leaks.ranks)
        who = f"Ranks {numbers} leak, {leaks.judged - count:,} others do not"
    text = f"Leak: {who[0].lower()}{who[1:]}: {size(leaks.bytes_per_step)} more after each step"
    if leaks.line is not None:
        text += f", from {leaks.line}"
        text += f" since step {leaks.first_step:,}" if leaks.first_step is not None else ""
    return paragraph(f"{text}.")


def _next(report: JobReport) -> list[str]:
    rank = None
    if report.failures.first is not None:
        rank = report.failures.first.rank
    elif report.outliers:
        rank = report.outliers[0].rank
    rank = rank or report.nearest or report.largest
    if rank is None or rank.recording is None:
        return []
    path = shlex.quote(os.path.relpath(rank.recording))
    return ["", f"Next: gpumemprof report {path}"]
