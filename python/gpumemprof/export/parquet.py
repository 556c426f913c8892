"""Makes the tables of ranks as Parquet; see docs/cli/export.md."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

from gpumemprof.errors import Error
from gpumemprof.export.files import join, pyarrow_or_error, written_file
from gpumemprof.export.keys import KeyedRows
from gpumemprof.export.recorded import write_recorded
from gpumemprof.ranks.read import every_column, read_one, summary_text
from gpumemprof.ranks.reading import places
from gpumemprof.ranks.reading.find import Pair
from gpumemprof.ranks.summary import RankSummary
from gpumemprof.recorder.rank_summary import SUFFIX

__all__ = ["TABLES", "ToWrite", "Written", "to_write", "write_pair"]

# A file of each for every recording; the stacks and segments that rows refer to are among them.
_RECORDED = ("events", "allocations", "segments", "stacks", "frames")
TABLES = (*_RECORDED, "steps", "sites", "ranks")
SUMMARIES = "summaries"


class ToWrite(NamedTuple):
    """One recording, or what is left of it, and where its tables go."""

    pair: Pair
    out: str
    name: str
    """Of the recording; no two share it."""


class Written(NamedTuple):
    """What became of one recording."""

    is_written: bool
    problems: list[str]
    job: str | None
    tables: dict[str, Any]
    """Those of which all recordings of a job share a file."""


def to_write(pairs: Sequence[Pair], out: str) -> list[ToWrite]:
    """Each with its name."""
    names = [str(pair.recording or pair.summary) for pair in pairs]
    short = [name.rpartition("/")[2].removesuffix(SUFFIX) for name in names]
    seen = {name: short.count(name) for name in set(short)} if len(set(short)) < len(short) else {}
    chosen = [
        one if seen.get(one, 1) == 1 else whole.removesuffix(SUFFIX)
        for one, whole in zip(short, names)
    ]
    return [ToWrite(pair, out, name) for pair, name in zip(pairs, chosen)]


def write_pair(work: ToWrite) -> Written:
    """Write the large tables of one rank, and make the small ones; what fails, as sentences."""
    read = read_one(work.pair)
    rank = read.summary
    if rank is None:
        return Written(False, [read.problem], None, {})
    arrow = pyarrow_or_error()
    keyed = KeyedRows(rank, work.name)
    problems = []
    if rank.recording is not None:
        try:
            _write_recording(rank.recording, work, keyed)
        except Error as error:
            problems.append(str(error))
    with written_file(_place(work, SUMMARIES, SUFFIX)) as path, open(path, "wb") as copy:  # noqa: PTH123
        copy.write(summary_text(rank))
    tables = {
        "steps": _steps(rank, arrow),
        "sites": _sites(rank, arrow),
        "ranks": _rank(rank, arrow),
    }
    return Written(True, problems, rank.job, {name: keyed(rows) for name, rows in tables.items()})


def _place(work: ToWrite, table: str, suffix: str = ".parquet") -> str:
    return join(work.out, table, quote(work.name, safe="") + suffix)


def _write_recording(recording: str, work: ToWrite, keyed: KeyedRows) -> None:
    with contextlib.ExitStack() as stack:
        path = stack.enter_context(places.local_copy(recording))
        paths = {
            table: stack.enter_context(written_file(_place(work, table))) for table in _RECORDED
        }
        write_recorded(path, paths, "parquet", finish=keyed)


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
            "at_peak_bytes": arrow.array([count for _, _, count in rows], arrow.int64()),
        }
    )


_TEXTS = (
    *("host", "device", "card", "command", "torch", "gpumemprof", "peak_phase", "leak_verdict"),
    "nccl_provenance",
)
_NUMBERS = (
    *("local_rank", "world_size", "pid", "total_bytes", "peak_bytes", "peak_step"),
    *("reserved_bytes", "outside_bytes", "nccl_bytes", "headroom_bytes", "retries", "ooms"),
    *("last_step", "first_unix_ns", "last_unix_ns"),
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
        held = None if rank.peak_bytes is None else rank.sources.get(source, 0)
        data[f"{source}_at_peak_bytes"] = arrow.array([held], arrow.int64())
    return arrow.table(data)
