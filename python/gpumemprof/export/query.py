"""Asks DuckDB about exported tables; they may be larger than memory."""

from __future__ import annotations

import csv
import re
import sys
from pathlib import Path
from typing import Any

from gpumemprof.errors import EnvironmentProblem, InputError
from gpumemprof.export.files import join
from gpumemprof.export.parquet import TABLES
from gpumemprof.printable import printable
from gpumemprof.ranks.reading import places

__all__ = ["open_tables", "print_rows"]

_ROWS_AT_ONCE = 10_000


def open_tables(out: str) -> Any:
    """A DuckDB connection with a view of each table that is there.

    Raises:
        EnvironmentProblem: DuckDB is not installed.
        InputError: there are no tables.
    """
    try:
        import duckdb
    except ImportError:
        raise EnvironmentProblem(
            "--sql needs DuckDB", "environment", "", "install it with: pip install duckdb"
        ) from None
    connection = duckdb.connect()
    connection.execute("SET enable_progress_bar = false")
    if places.is_url(out):
        _register(connection, out)
    else:
        out = str(Path(places.local_path(out)).absolute())
    found = 0
    for table in TABLES:
        pattern = join(_literal(out), table, "*.parquet").replace("'", "''")
        try:
            connection.execute(
                f"CREATE VIEW {table} AS SELECT * FROM read_parquet('{pattern}', "
                "hive_partitioning = false)"
            )
            found += 1
        except duckdb.IOException:  # A folder of summaries has no events.
            continue
    if not found:
        raise InputError(
            "no tables here", "bad_input", out, "write them: gpumemprof export --to parquet"
        )
    return connection


def _literal(path: str) -> str:
    """A pattern that is this path alone.

    >>> _literal("runs/[a]*")
    'runs/[[]a][*]'
    """
    return re.sub(r"[\[*?]", r"[\g<0>]", path)


def _register(connection: Any, url: str) -> None:
    import fsspec

    connection.register_filesystem(fsspec.filesystem(url.partition("://")[0]))


def print_rows(out: str, query: str) -> None:
    """Print the answer of a query as CSV; names may come from anywhere, so as they may be shown.

    Raises:
        InputError: the query is wrong.
    """
    connection = open_tables(out)
    import duckdb

    try:
        answer = connection.execute(query)
        if answer.description is None:
            return
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow([printable(column[0]) for column in answer.description])
        while rows := answer.fetchmany(_ROWS_AT_ONCE):
            writer.writerows([_shown(cell) for cell in row] for row in rows)
    except duckdb.Error as error:
        sentence = str(error).strip().splitlines()[0].rstrip(".")
        raise InputError(sentence, "usage", "", "check the query") from None


def _shown(cell: Any) -> Any:
    return printable(cell) if isinstance(cell, str) else cell
