"""Writes the tables of ranks as Parquet, partitioned by job and rank; see docs/cli/export.md."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from gpumemprof.errors import EnvironmentProblem, Error
from gpumemprof.ranks.read import every_column
from gpumemprof.ranks.summary import RankSummary
from gpumemprof.read.recording import load

__all__ = ["TABLES", "pyarrow_or_error", "write_rank"]

TABLES = ("events", "allocations", "steps", "sites", "ranks")
# What engines take for a value that is not known.
_UNKNOWN = "__HIVE_DEFAULT_PARTITION__"
# DuckDB reads one row group with one thread, and wants at least 122,880 rows in each.
_ROW_GROUP_ROWS = 1 << 20


def pyarrow_or_error() -> Any:
    """The module that writes Parquet.

    Raises:
        EnvironmentProblem: it is not installed.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise EnvironmentProblem(
            "writing Parquet needs pyarrow", "environment", "", 'pip install "gpumemprof[ranks]"'
        ) from None
    return pyarrow


def write_rank(rank: RankSummary, folder: Path) -> list[str]:
    """Write all tables of one rank; a sentence for each that could not be made."""
    arrow = pyarrow_or_error()
    problems = []
    try:
        for name, table in _recorded(rank, arrow):
            _write(arrow, table, _path(folder, name, rank))
    except Error as error:
        problems.append(str(error))
    for name, table in (
        ("steps", _steps(rank, arrow)),
        ("sites", _sites(rank, arrow)),
        ("ranks", _rank(rank, arrow)),
    ):
        _write(arrow, table, _path(folder, name, rank))
    return problems


def _path(folder: Path, table: str, rank: RankSummary) -> Path:
    job = _UNKNOWN if rank.job is None else quote(rank.job, safe="")
    number = _UNKNOWN if rank.rank is None else str(rank.rank)
    name = Path(rank.recording or rank.path).name
    return folder / table / f"job={job}" / f"rank={number}" / f"{quote(name, safe='')}.parquet"


def _write(arrow: Any, table: Any, path: Path) -> None:
    """The file appears as a whole, or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    try:
        arrow.parquet.write_table(table, part, compression="zstd", row_group_size=_ROW_GROUP_ROWS)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _recorded(rank: RankSummary, arrow: Any) -> Iterator[tuple[str, Any]]:
    """What only the recording has."""
    if rank.recording is None:
        return
    recording = load(rank.recording)
    yield "events", arrow.table(recording.events)
    yield "allocations", arrow.table(recording.allocations)


def _steps(rank: RankSummary, arrow: Any) -> Any:
    columns = every_column(rank)
    # Unknown columns are there, so that the files of all ranks have the same.
    names = ("step", "peak_bytes", "floor_bytes", "reserved_bytes", "outside_bytes")
    count = len(columns.get("step", ()))
    data = {name: columns.get(name) for name in names}
    data.update({f"most_{source}_bytes": columns.get(f"most {source}") for source in _SOURCES})
    return arrow.table(
        {
            name: arrow.array([None] * count if values is None else values, arrow.int64())
            for name, values in data.items()
        }
    )


_SOURCES = (
    *("parameters", "gradients", "optimizer_state", "activations", "inputs", "communication"),
    *("workspace", "temporaries", "kv_cache", "unknown"),
)


def _sites(rank: RankSummary, arrow: Any) -> Any:
    held = rank.held
    rows = [("line", name, count) for name, count in held.sites]
    rows += [("module", name, count) for name, count in held.modules]
    return arrow.table(
        {
            "kind": arrow.array([kind for kind, _, _ in rows], arrow.string()),
            "name": arrow.array([name for _, name, _ in rows], arrow.string()),
            "bytes_at_peak": arrow.array([count for _, _, count in rows], arrow.int64()),
        }
    )


_TEXTS = ("host", "device", "card", "command", "torch", "peak_phase", "leak_verdict")
_NUMBERS = (
    *("local_rank", "world_size", "restart_count", "pid", "total_bytes", "peak_bytes", "peak_step"),
    *("reserved_bytes", "outside_bytes", "headroom_bytes", "retries", "ooms", "last_step"),
    *("first_unix_ns", "last_unix_ns"),
)


def _rank(rank: RankSummary, arrow: Any) -> Any:
    ending = rank.ending
    data = {name: arrow.array([getattr(rank, name)], arrow.string()) for name in _TEXTS}
    data.update({name: arrow.array([getattr(rank, name)], arrow.int64()) for name in _NUMBERS})
    mesh = [(one.name, one.coordinate) for one in rank.mesh]
    data["mesh"] = arrow.array([mesh], arrow.map_(arrow.string(), arrow.int64()))
    data["failure_type"] = arrow.array([ending.failure_type], arrow.string())
    data["failure_place"] = arrow.array([ending.failure_place], arrow.string())
    data["failure_unix_ns"] = arrow.array([ending.failure_unix_ns], arrow.int64())
    for source in _SOURCES:
        held = rank.sources.get(source, 0)
        data[f"{source}_bytes_at_peak"] = arrow.array([held], arrow.int64())
    return arrow.table(data)
