"""What a report on a job says, sentence by sentence: for the terminal, and for the page."""

from __future__ import annotations

import socket
import time
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from gpumemprof.estimate.command.units import size
from gpumemprof.ranks.compare.failures import Failure, Failures
from gpumemprof.ranks.compare.groups import Group
from gpumemprof.ranks.compare.outliers import Excess, Outlier, compare_with_group
from gpumemprof.ranks.compare.statistics import are_alike
from gpumemprof.ranks.jobs import names_of
from gpumemprof.ranks.report import JobReport
from gpumemprof.ranks.summary import RankSummary
from gpumemprof.ranks.table import rank_name

__all__ = [
    "Said",
    "about_communicators",
    "about_failures",
    "about_imbalance",
    "about_leaks",
    "about_outliers",
    "about_uneven_places",
    "nearest_sentence",
    "title_sentence",
]

_MOST_OUTLIERS = 5
# A recorder that has something to write does so within a second.
_RUNNING_NS = 60_000_000_000
_FIGURE_NAMES = {
    "peak_bytes": "peaks at",
    "reserved_bytes": "reserves",
    "outside_bytes": "holds outside the pool",
}


@dataclass(frozen=True)
class Said:
    """One sentence, or a few that belong together."""

    text: str
    is_detail: bool = False
    """It belongs to the sentence before."""


def _say(text: str, indent: int = 0) -> list[Said]:
    return [Said(text, indent > 0)]


def _counted(count: int, one: str) -> str:
    return f"{count:,} {one}" if count == 1 else f"{count:,} {one}s"


def _beginning(name: str) -> str:
    """A rank at the beginning of a sentence; the name of a file stays as it is."""
    return f"R{name[1:]}" if name.startswith(("rank ", "ranks ")) else name


def title_sentence(report: JobReport) -> str:
    """Which job it is."""
    job = report.job
    hosts = {one.host for one in job.ranks if one.host is not None}
    named = f" ({job.ranks[0].job})" if job.ranks[0].job else ""
    where = f" on {_counted(len(hosts), 'host')}" if hosts else ""
    steps = max((one.last_step or 0 for one in job.ranks), default=0)
    until = f", up to step {steps:,}" if steps else ""
    restart = job.ranks[0].restart_count
    again = f", restart {restart}" if restart else ""
    if job.is_program:
        return f"{job.ranks[0].title}: {job.command}{where}{until}."
    what = "recording" if all(one.rank is None for one in job.ranks) else "rank"
    return f"{job.command}{named}{again}: {_counted(len(job.ranks), what)}{where}{until}."


def nearest_sentence(report: JobReport) -> str:
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


def about_outliers(report: JobReport) -> list[Said]:
    if len(report.job.ranks) == 1:
        return []
    lines = _say(report.grouping.sentence)
    if not report.outliers:
        large = [group for group in report.grouping.groups if len(group.ranks) > 1]
        if large and not report.uneven_places:
            lines += _say(_about_like_peaks(large))
        return lines
    for outlier in report.outliers[:_MOST_OUTLIERS]:
        lines += _outlier(outlier)
    if len(report.outliers) > _MOST_OUTLIERS:
        rest = [one.rank for one in report.outliers[_MOST_OUTLIERS:]]
        lines += _say(f"Further outliers: {names_of(rest)}.")
    return lines


def _about_like_peaks(groups: list[Group]) -> str:
    """Where half of a group needs more than the rest, no rank of it is an outlier."""
    spreads = []
    for group in groups:
        peaks = [one.peak_bytes for one in group.ranks if one.peak_bytes is not None]
        if peaks and not are_alike(min(peaks), max(peaks)):
            spreads.append(max(peaks) - min(peaks))
    if not spreads:
        return "No rank has a clearly higher peak than the others of its group."
    return (
        f"Peaks differ by up to {size(max(spreads))} within a group, in too many ranks to say "
        "which of them are unusual."
    )


def _outlier(outlier: Outlier) -> list[Said]:
    rank, count = outlier.rank, len(outlier.group.ranks)
    what = f"{_FIGURE_NAMES[outlier.figure]} {size(outlier.bytes)}"
    phase = f", {rank.peak_phase.replace('_', ' ')}" if rank.peak_phase else ""
    when = f"{_at_step(rank.peak_step)}{phase}" if outlier.figure == "peak_bytes" else ""
    if outlier.is_pair:
        than = "the other rank of its group (which of two is unusual cannot be told)"
    else:
        than = f"the median of the {count:,} ranks of its group ({outlier.group.name})"
    lines = _say(
        f"Outlier: {rank_name(rank)} {what}{when}: {size(outlier.more_bytes)} more than {than}."
    )
    return [*lines, *_excesses(outlier)]


def _excesses(outlier: Outlier) -> list[Said]:
    lines: list[Said] = []
    for name, excesses in (
        ("by source", outlier.sources),
        ("by module", outlier.modules),
        ("by line", outlier.sites),
    ):
        if excesses:
            listed = ", ".join(map(_excess, excesses))
            # Of the names, only those of sources are ours.
            listed = listed.replace("_", " ") if excesses is outlier.sources else listed
            lines += _say(f"{name}: {listed}", 2)
    return lines


def _excess(excess: Excess) -> str:
    least = "at least " if excess.is_bound else ""
    return f"{excess.name} {least}+{size(excess.more_bytes)}"


def about_uneven_places(report: JobReport) -> list[Said]:
    """Places of the mesh that differ as a whole."""
    lines: list[Said] = []
    for one in report.uneven_places[:_MOST_OUTLIERS]:
        more = size(one.median_bytes - one.others_bytes)
        than = (
            f"the other place of {one.dimension} (which of two is unusual cannot be told)"
            if one.is_pair
            else f"the other places of {one.dimension}"
        )
        which = names_of(one.ranks).removeprefix("ranks ").removeprefix("rank ")
        lines += _say(
            f"Uneven: the ranks of {one.name} ({which}) peak at {size(one.median_bytes)} (median), "
            f"{more} more than {than}; most is {one.heaviest.title}"
            f"{_at_step(one.heaviest.peak_step)}."
        )
        if one.more is not None:
            lines += _excesses(one.more)
    return lines


def about_communicators(report: JobReport) -> list[Said]:
    """What NCCL holds outside of the pool."""
    known = [one for one in report.job.ranks if one.nccl_bytes is not None]
    if not known:
        return []
    most = max(known, key=lambda one: one.nccl_bytes or 0)
    of = "" if most.outside_bytes is None else f", of {size(most.outside_bytes)} outside"
    how = f" ({most.nccl_provenance})" if most.nccl_provenance else ""
    return _say(
        f"Outside of the pool: NCCL's communicators hold up to {size(most.nccl_bytes or 0)}{how}"
        f"{of}, on {rank_name(most)}."
    )


def about_imbalance(report: JobReport) -> list[Said]:
    found = report.imbalance
    if not found.uneven or found.worst is None:
        return []
    worst, heaviest = found.worst, found.heaviest
    share = f"{len(found.uneven):,} of {_counted(len(found.compared), 'step')}"
    text = (
        f"Imbalance: in {share} one rank needs clearly more than the median of its group; most at "
        f"step {worst.step:,}, where {worst.rank.title} needs {size(worst.more_bytes)} more."
    )
    if len(found.uneven) == 1:
        text += " There is no other such step."
    elif len(heaviest) == 1:
        name = worst.rank.title
        text += f" It is always {name}, from step {found.first_step[name]:,} on."
    else:
        name, count = heaviest.most_common(1)[0]
        text += f" {len(heaviest):,} ranks take turns; {name} comes most often ({count:,})."
    lines = _say(text)
    if all(one.rank is not worst.rank for one in report.outliers):
        more = compare_with_group(worst.rank, report.grouping.of(worst.rank))
        if more is not None:
            what = f"At its own peak{_at_step(worst.rank.peak_step)} it holds more than the median:"
            lines += [*_say(what, 2), *_excesses(more)]
    return lines


def about_failures(report: JobReport) -> list[Said]:
    found = report.failures
    if found.candidates:
        return _about_candidates(found)
    if found.first is None:
        return _about_silent(found)
    first = found.first
    lines = _say(f"Failed first: {rank_name(first.rank)}, {_failure(first)}.")
    if found.doubt:
        lines += _say(f"This may be wrong: {found.doubt}.", 2)
    for other in found.also[:_MOST_OUTLIERS]:
        lines += _say(f"Also failed: {rank_name(other.rank)}, {_failure(other)}.")
    if len(found.also) > _MOST_OUTLIERS:
        lines += _say(f"and {len(found.also) - _MOST_OUTLIERS:,} more ranks.", 2)
    return lines + _about_followed(found)


def _about_candidates(found: Failures) -> list[Said]:
    first, *rest = [one.rank.title for one in found.candidates]
    *others, last = [first, *(one.removeprefix("rank ") for one in rest)]
    lines = _say(
        f"Failed first: {', '.join(others)} or {last}, killed. Their recordings end within "
        "seconds of each other, and the last events of each are missing, so the order is unknown."
    )
    return lines + _about_followed(found)


def _about_followed(found: Failures) -> list[Said]:
    if not found.followed:
        return []
    which = _beginning(names_of([one.rank for one in found.followed]))
    why = "lost the connection to another rank, or killed"
    return _say(f"{which} failed as a consequence: {why}.")


def _about_silent(found: Failures) -> list[Said]:
    """Ranks that left no end, while none says why."""
    ranks = found.without_end
    if not ranks:
        return []
    if all(one.ending.is_closed for one in ranks):
        signals = sorted({(one.ending.reason or "").partition(" ")[2] for one in ranks})
        was = "was" if len(ranks) == 1 else "were"
        return _say(f"{_counted(len(ranks), 'rank')} {was} killed by {' and '.join(signals)}.")
    last_ns = max((one.last_unix_ns or 0 for one in ranks), default=0)
    if time.time_ns() - last_ns < _RUNNING_NS and not all(map(_is_gone, ranks)):
        being = "recording is" if len(ranks) == 1 else "recordings are"
        return _say(f"{len(ranks):,} {being} still being written, or ended within the last minute.")
    which = _counted(len(ranks), "recording")
    have = "has" if len(ranks) == 1 else "have"
    lines = _say(f"{which} {have} no end: the rank was killed, or is still running.")
    if found.silent_ns is not None:
        first, seconds = ranks[0], found.silent_ns / 1e9
        lines += _say(
            f"{_beginning(rank_name(first))} fell silent first{_at_step(first.last_step)}"
            f"{_at_time(first.last_unix_ns)}, {seconds:.3f} s before the next: it may have been "
            "killed, while the others waited for it.",
            2,
        )
    return lines


def _is_gone(rank: RankSummary) -> bool:
    """Whether it was a process of this machine, and there is none of its number any more."""
    if rank.pid is None or rank.host != socket.gethostname():
        return False
    return not Path(f"/proc/{rank.pid}").exists()


def _failure(failure: Failure) -> str:
    ending = failure.rank.ending
    if failure.kind == "out of memory":
        what = "out of memory"
        if failure.oom is not None:
            doubt = "" if failure.oom.is_proven else ", probably"
            cause = failure.oom.cause.replace("_", " ")
            what += f" ({size(failure.oom.wanted_bytes)} requested; {cause}{doubt})"
    elif failure.kind == "killed":
        what = "killed"
    else:
        how = f"killed by {failure.signal}" if failure.signal else f"exit code {failure.exit_code}"
        what = ending.failure_type or how
    where = f" in {failure.line}" if failure.line else ""
    return f"{what}{where}{_at_step(failure.step)}{_at_time(failure.unix_ns)}"


def _at_time(unix_ns: int | None) -> str:
    if unix_ns is None:
        return ""
    time = datetime.fromtimestamp(unix_ns / 1e9, timezone.utc)
    return time.strftime(", %Y-%m-%d %H:%M:%S.") + f"{unix_ns // 1_000_000 % 1000:03} UTC"


def about_leaks(report: JobReport) -> list[Said]:
    leaks = report.leaks
    if not leaks.ranks:
        if not leaks.unknown:
            return []
        return _say(f"Leaks are not known of {_counted(leaks.unknown, 'rank')}, read in windows.")
    count = len(leaks.ranks)
    if count == leaks.judged and count > 1:
        who = f"all {count:,} ranks leak"
    elif count == 1:
        who = f"{rank_name(leaks.ranks[0])} alone leaks"
    else:
        who = f"{names_of(leaks.ranks)} leak, {leaks.judged - count:,} others do not"
    text = f"Leak: {who}: {size(leaks.bytes_per_step)} more after each step"
    if leaks.line is not None:
        text += f", from {leaks.line}"
        text += f" since step {leaks.first_step:,}" if leaks.first_step is not None else ""
    return _say(f"{text}.")
