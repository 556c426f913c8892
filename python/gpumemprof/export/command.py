"""Runs ``gpumemprof export``."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path

from gpumemprof.command_line import CommandParser
from gpumemprof.errors import Error, InputError, UsageError
from gpumemprof.export.files import join, pyarrow_or_error
from gpumemprof.export.job_files import JobFiles
from gpumemprof.export.parquet import TABLES, ToWrite, Written, to_write, write_pair
from gpumemprof.export.query import print_rows
from gpumemprof.printable import printable
from gpumemprof.ranks.reading import places
from gpumemprof.ranks.reading.find import find_files
from gpumemprof.ranks.reading.work import Workers, in_processes

__all__ = ["main"]

_CODES = {"usage": 2, "bad_input": 3, "environment": 4}
_BUG_CODE = 70
_HELP = """\
Write recordings as Parquet tables, for any engine that reads them.

Usage: gpumemprof export --to parquet OUT FOLDER|FILE|PATTERN|URL...
       gpumemprof export --sql QUERY OUT

The first writes the tables events, allocations, segments, stacks, frames,
steps, sites and ranks to folders of OUT; each row says which job, rank, restart
and recording it is of. Needs PyArrow: pip install pyarrow. OUT and what is read
may be URLs that fsspec opens, such as s3://bucket/runs. The second asks DuckDB
about such tables: pip install duckdb.

Options:
  --to parquet   The format, the only one
  --ray ADDRESS  Read and write on a Ray cluster: auto, HOST:PORT or local;
                 needs: pip install pyarrow ray
  --sql QUERY    Print the answer of a query over the tables in OUT as CSV
  -f, --force    Write into OUT even if it holds such tables; what they say
                 about the same recordings is replaced
  -h, --help     Print this help
"""


def main(arguments: Sequence[str]) -> int:
    """Run the verb.

    Args:
        arguments: the words after ``export``.

    Returns:
        0, or 2 for wrong usage, 3 if not everything could be read, 4 if something is missing here.
    """
    try:
        parser = CommandParser("gpumemprof export", _HELP)
        parser.add_argument("--to")
        parser.add_argument("--sql")
        parser.add_argument("--ray")
        parser.add_argument("-f", "--force", action="store_true")
        parser.add_argument("words", nargs="*")
        given = parser.parse(arguments)
        if given.help:
            print(_HELP, end="")
            return 0
        if given.sql is not None:
            if given.to is not None or len(given.words) != 1:
                raise parser.mistake("--sql needs the folder of the tables, and nothing else")
            print_rows(given.words[0], given.sql)
            return 0
        if given.to != "parquet":
            what = "--to is missing" if given.to is None else f"unknown format '{given.to}'"
            raise UsageError(what, "usage", "", "write --to parquet")
        if len(given.words) < 2:
            raise parser.mistake("export needs a folder to write to, and what to write")
        return _run(given.words[0], given.words[1:], given.force, given.ray)
    except Error as error:
        _say(str(error))
        return _CODES.get(error.code, _BUG_CODE)
    except OSError as error:
        where = error.filename or "the output"
        _say(f"{where}: cannot be written: {error.strerror}; choose another folder")
        return _CODES["environment"]


def _say(sentence: str) -> None:
    print(printable(f"gpumemprof: {sentence}"), file=sys.stderr, flush=True)


def _has_tables(out: str) -> bool:
    if not places.is_url(out):
        return any(Path(places.local_path(out), table).exists() for table in TABLES)
    for table in TABLES:
        with contextlib.suppress(InputError, FileNotFoundError):
            places.list_files(join(out, table))
            return True
    return False


def _run(out: str, words: Sequence[str], overwrites: bool, ray: str | None) -> int:
    # Not imported before processes are forked: its threads would be missing there.
    if importlib.util.find_spec("pyarrow") is None:
        pyarrow_or_error()
    if not overwrites and _has_tables(out):
        raise UsageError("it holds tables already", "usage", out, "add -f, or name another")
    pairs = find_files(words)
    if not pairs:
        raise InputError(
            "no recordings and no summaries of ranks here",
            "bad_input",
            ", ".join(words),
            "record each rank: torchrun ... -m gpumemprof run SCRIPT",
        )
    place = out
    if not places.is_url(out):
        # Workers may have another working directory.
        place = str(Path(places.local_path(out)).absolute())
        Path(place).mkdir(parents=True, exist_ok=True)
    work = to_write(pairs, place)
    if ray is None:
        results = _write_all(work, place, in_processes)
    else:
        from gpumemprof.ranks.reading.cluster import RayWorkers

        with RayWorkers(ray) as workers:
            results = _write_all(work, place, workers)
    problems = [problem for result in results for problem in result.problems]
    for problem in problems:
        _say(problem)
    count = sum(result.is_written for result in results)
    if not count:
        raise InputError("nothing could be read", "bad_input", ", ".join(words), "see above")
    what = "1 recording" if count == 1 else f"{count:,} recordings"
    print(f"{what} written to {printable(out)}")
    return _CODES["bad_input"] if problems else 0


def _write_all(work: list[ToWrite], out: str, workers: Workers) -> list[Written]:
    shows = sys.stderr.isatty()
    results: list[Written] = []
    with JobFiles(out, {one.name for one in work}) as files:
        for result in workers(write_pair, work):
            files.add(result.job, result.tables)
            results.append(result._replace(tables={}))
            if shows:
                line = f"\r\x1b[K{len(results):,} of {len(work):,} written"
                print(line, end="", file=sys.stderr, flush=True)
    if shows:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    return results
