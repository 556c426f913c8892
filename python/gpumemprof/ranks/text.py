"""The report on jobs, for people."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable

from gpumemprof.estimate.command.page import paragraph
from gpumemprof.printable import printable
from gpumemprof.ranks.reading import places
from gpumemprof.ranks.report import JobReport, RanksReport
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
from gpumemprof.ranks.table import program_table, rank_table

__all__ = ["as_text"]

_UNIT = re.compile(r"(?<=\d) (?=[KMGTPE]?i?B\b)")


def as_text(report: RanksReport, folder: str | None = None) -> str:
    """All jobs, one after the other; `folder` is what they were read from, or its URL."""
    lines: list[str] = []
    for note in report.notes:
        lines += paragraph(f"Note: {note}.")
    if len(report.jobs) > 1 and all(one.job.is_program for one in report.jobs):
        ranks = [rank for one in report.jobs for rank in one.job.ranks]
        lines += ["", *program_table(ranks), *_report_command(ranks[0])]
    else:
        for number, job in enumerate(report.jobs):
            if number or lines:
                lines.append("")
            lines += _job(job)
    if folder is not None:
        name = shlex.quote(folder)
        is_url = places.is_url(folder)
        command = f"ranks {name} --html ranks.html" if is_url else f"view {name}"
        lines += ["", f"All ranks over steps: gpumemprof {command}"]
    return "\n".join(printable(line) for line in lines)


def _job(report: JobReport) -> list[str]:
    lines = paragraph(title_sentence(report))
    # Whoever's job just failed reads this first.
    lines += _wrapped(about_failures(report))
    lines += paragraph(nearest_sentence(report))
    for note in report.job.notes:
        lines += paragraph(f"Note: {note}.")
    lines += ["", *rank_table(report.job.ranks, report.grouping)]
    for section in (
        about_outliers,
        about_uneven_places,
        about_imbalance,
        about_communicators,
        about_leaks,
    ):
        found = section(report)
        if found:
            lines += ["", *_wrapped(found)]
    return [*lines, *_next(report)]


def _wrapped(said: Iterable[Said]) -> list[str]:
    lines: list[str] = []
    for one in said:
        # A figure and its unit stay together.
        text = _UNIT.sub("\u00a0", one.text)
        lines += paragraph(text, 2, 4) if one.is_detail else paragraph(text)
    return [line.replace("\u00a0", " ") for line in lines]


def _next(report: JobReport) -> list[str]:
    rank = None
    if report.failures.first is not None:
        rank = report.failures.first.rank
    elif report.failures.silent_ns is not None:
        rank = report.failures.without_end[0]
    elif report.outliers:
        rank = report.outliers[0].rank
    rank = rank or report.nearest or report.largest
    return [] if rank is None else _report_command(rank)


def _report_command(rank: RankSummary) -> list[str]:
    if rank.recording is None:
        return []
    if places.is_url(rank.recording):
        name = rank.recording.rpartition("/")[2]
        return [
            "",
            f"Next: copy {rank.recording} to this machine, then",
            f"      gpumemprof report {shlex.quote(name)}",
        ]
    path = min(os.path.relpath(rank.recording), rank.recording, key=len)
    return ["", f"Next: gpumemprof report {shlex.quote(path)}"]
