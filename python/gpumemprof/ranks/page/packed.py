"""Puts the report into the page: packed, and small enough to be sent to someone."""

from __future__ import annotations

import base64
import contextlib
import gzip
import json
import os
import time
from pathlib import Path

from gpumemprof._data import ranks_page_path
from gpumemprof.errors import Error
from gpumemprof.ranks.page.cells import find_cells, first_resolution
from gpumemprof.ranks.page.job_page import job_page
from gpumemprof.ranks.page.page_json import PageJson
from gpumemprof.ranks.read import Progress
from gpumemprof.ranks.report import RanksReport

__all__ = ["packed_page", "page_shell", "write_html"]

_MOST_HTML_BYTES = 5_000_000
_MARK = "<!--data-->"
_LEVEL = 6


def packed_page(
    report: RanksReport, most_bytes: int = _MOST_HTML_BYTES, progress: Progress | None = None
) -> bytes:
    """The report as the page reads it, compressed to at most `most_bytes`.

    Where that is not possible otherwise, steps are put together and figures are rounded.
    """
    cells = [
        find_cells(job.job.ranks, first_resolution(job.job.ranks), progress) for job in report.jobs
    ]
    while True:
        page: PageJson = {
            "made_unix_ns": time.time_ns(),
            # A problem begins with a path, which stays as it is.
            "notes": [*map(_ended, report.problems), *map(_sentence, report.notes)],
            "jobs": [job_page(job, one) for job, one in zip(report.jobs, cells)],
        }
        text = json.dumps(page, separators=(",", ":"), ensure_ascii=False)
        packed = gzip.compress(text.encode("utf-8", "replace"), _LEVEL, mtime=0)
        if len(packed) <= most_bytes or all(len(one.first_steps) <= 1 for one in cells):
            return packed
        cells = [one.coarser() for one in cells]


def write_html(
    report: RanksReport, output: str, is_forced: bool, progress: Progress | None = None
) -> int:
    """Write one HTML file that needs no network; returns its bytes.

    Raises:
        Error: it exists and is not to be replaced, or it cannot be written.
    """
    shell = page_shell()
    target = Path(output)
    if target.exists() and not is_forced:
        raise Error("already exists", "usage", output, "add --force to replace it")
    most = (_MOST_HTML_BYTES - len(shell.encode()) - 1024) * 3 // 4
    packed = base64.b64encode(packed_page(report, most, progress)).decode("ascii")
    section = f'<script type="application/octet-stream" data-section="ranks">{packed}</script>'
    page = shell.replace(_MARK, section).encode()
    # Complete, or not there at all.
    part = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        part.write_bytes(page)
        part.replace(target)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink()
        raise Error(
            f"cannot be written: {error.strerror}", "environment", output, "name another file"
        ) from None
    return len(page)


def page_shell() -> str:
    """The page as it ships, without a report."""
    try:
        return Path(ranks_page_path()).read_text("utf-8")
    except OSError:
        raise Error(
            "the page about ranks is not installed",
            "environment",
            "",
            "install gpumemprof with tools/install",
        ) from None


def _ended(problem: str) -> str:
    return problem if problem.endswith((".", "!", "?")) else f"{problem}."


def _sentence(note: str) -> str:
    text = _ended(note)
    return f"{text[0].upper()}{text[1:]}"
