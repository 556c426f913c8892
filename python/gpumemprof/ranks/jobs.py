"""Sorts ranks into jobs: a folder may hold several, or one that was started again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from gpumemprof.ranks.summary import RankSummary

__all__ = ["Job", "find_jobs", "names_of", "number_ranges"]


@dataclass
class Job:
    """The ranks of one job, in order."""

    ranks: list[RankSummary]
    notes: list[str] = field(default_factory=list)
    """What is missing or odd, a sentence each."""

    @property
    def is_program(self) -> bool:
        """Whether it is a single recording that does not say which rank it is of."""
        return len(self.ranks) == 1 and self.ranks[0].rank is None

    @property
    def world_size(self) -> int:
        """How many ranks the job has; those that are there if no rank says."""
        known = max((one.world_size or 0 for one in self.ranks), default=0)
        return max(known, len(self.ranks))

    @property
    def missing(self) -> list[int]:
        """The ranks that left nothing behind."""
        there = {one.number for one in self.ranks}
        if -1 in there:
            return []
        return [rank for rank in range(self.world_size) if rank not in there]

    @property
    def command(self) -> str:
        """The program, as most ranks have it."""
        return _most_common(one.command for one in self.ranks) or "a program"

    @property
    def start_unix_ns(self) -> int:
        """When its first rank began; 0 if no rank says."""
        times = [one.first_unix_ns for one in self.ranks if one.first_unix_ns is not None]
        return min(times, default=0)


def find_jobs(ranks: Sequence[RankSummary]) -> list[Job]:
    """The jobs, the newest first. Where some recordings are of ranks, only those count.

    Where none is, recordings of one command may be the ranks of a job whose launcher is not known;
    those of different commands are programs by themselves.
    """
    numbered = [one for one in ranks if one.rank is not None]
    left_out = len(ranks) - len(numbered)
    if numbered:
        ranks = numbered
    are_programs = not numbered and len({one.command for one in ranks}) > 1
    by_key: dict[tuple[object, ...], list[RankSummary]] = {}
    for one in ranks:
        program = one.path if are_programs else None
        key = (one.job, one.world_size, one.restart_count, program)
        by_key.setdefault(key, []).append(one)
    jobs = [Job(members) for group in by_key.values() for members in _without_doubles(group)]
    for job in jobs:
        job.ranks.sort(key=lambda one: one.number)
        job.notes += [
            *_missing_notes(job),
            *_version_notes(job),
            *_clock_notes(job),
            *_doubts(job),
        ]
    jobs.sort(key=lambda job: -job.start_unix_ns)
    if numbered and left_out:
        which = "one recording is" if left_out == 1 else f"{left_out:,} recordings are"
        why = "of no rank (a process that a rank started, or another program) and left out"
        jobs[0].notes.append(f"{which} {why}")
    return jobs


def _without_doubles(ranks: list[RankSummary]) -> list[list[RankSummary]]:
    """A rank number that comes twice belongs to two jobs, in order of time."""
    if any(one.rank is None for one in ranks):
        return [ranks]
    jobs: list[dict[int, RankSummary]] = []
    for one in sorted(ranks, key=lambda entry: entry.first_unix_ns or 0):
        place = next((job for job in jobs if one.number not in job), None)
        if place is None:
            place = {}
            jobs.append(place)
        place[one.number] = one
    return [list(job.values()) for job in jobs]


def number_ranges(numbers: Iterable[int], most: int = 6) -> str:
    """Numbers for people.

    >>> number_ranges([0, 1, 2, 5, 7, 8])
    '0-2, 5, 7-8'
    """
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    texts = [str(first) if first == last else f"{first}-{last}" for first, last in ranges]
    if len(texts) > most:
        return ", ".join(texts[:most]) + ", …"
    return ", ".join(texts)


def names_of(ranks: Sequence[RankSummary], most: int = 6) -> str:
    """``rank 3``, ``ranks 3-5, 7``, or the names of files of ranks without a number."""
    if all(one.rank is not None for one in ranks):
        numbers = number_ranges((one.number for one in ranks), most)
        return f"rank {numbers}" if len(ranks) == 1 else f"ranks {numbers}"
    shown = [one.title for one in ranks[:most]]
    return ", ".join([*shown, "…"] if len(ranks) > most else shown)


def _missing_notes(job: Job) -> list[str]:
    missing = job.missing
    if not missing:
        return []
    which = f"rank {missing[0]}" if len(missing) == 1 else f"ranks {number_ranges(missing)}"
    left = "left nothing here that can be read"
    return [f"{which} of {job.world_size:,} {left}; what follows is about the others"]


def _version_notes(job: Job) -> list[str]:
    notes = []
    for name, values in (
        ("gpumemprof", [one.gpumemprof for one in job.ranks]),
        ("torch", [one.torch for one in job.ranks]),
    ):
        counts = Counter(value for value in values if value is not None)
        if len(counts) > 1:
            which = ", ".join(f"{version} ({count:,})" for version, count in counts.most_common(4))
            notes.append(f"the ranks have different versions of {name}: {which}")
    commands = {one.command for one in job.ranks if one.command is not None}
    if len(commands) > 1:
        notes.append(f"the ranks ran {len(commands)} different commands; they may be of two jobs")
    return notes


# The ranks of a job wait for each other when they start.
_MOST_APART_NS = 300 * 1_000_000_000


def _clock_notes(job: Job) -> list[str]:
    """Whether the hosts began at the same time, each by its own clock."""
    by_host: dict[str, list[int]] = {}
    for one in job.ranks:
        if one.host is not None and one.first_unix_ns is not None:
            by_host.setdefault(one.host, []).append(one.first_unix_ns)
    begins = {host: sorted(times)[len(times) // 2] for host, times in by_host.items()}
    usual = sorted(begins.values())[len(begins) // 2] if len(begins) > 1 else 0
    apart = {
        host: begin - usual
        for host, begin in begins.items()
        if len(begins) > 1 and abs(begin - usual) > _MOST_APART_NS
    }
    if not apart:
        return []
    host = max(apart, key=lambda name: abs(apart[name]))
    others = f" and {len(apart) - 1:,} more" if len(apart) > 1 else ""
    minutes = abs(apart[host]) // 60_000_000_000
    when = "before" if apart[host] < 0 else "after"
    return [
        f"by its own clock, {host} began {minutes:,} minutes {when} the other hosts{others}: "
        "clocks are apart, and the order of what happened on different hosts is in doubt"
    ]


def _doubts(job: Job) -> list[str]:
    notes = []
    unnumbered = sum(one.rank is None for one in job.ranks)
    if unnumbered and not job.is_program:
        which = (
            "one recording does not say which rank it is of"
            if unnumbered == 1
            else f"{unnumbered:,} recordings do not say which ranks they are of"
        )
        notes.append(which)
    cut = [one.rank for one in job.ranks if not one.is_whole]
    numbers = [number for number in cut if number is not None]
    if cut:
        whose = (
            f" of rank {numbers[0]}" if len(numbers) == 1 else f" of ranks {number_ranges(numbers)}"
        )
        what = "the recording" if len(cut) == 1 else f"{len(cut):,} recordings"
        is_are = "is" if len(cut) == 1 else "are"
        notes.append(f"{what}{whose if numbers else ''} {is_are} incomplete: see gpumemprof info")
    return notes


def _most_common(values: Iterable[str | None]) -> str | None:
    counts = Counter(value for value in values if value is not None)
    return counts.most_common(1)[0][0] if counts else None
