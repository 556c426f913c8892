"""Writes the tables of one recording, for ``export`` and for ``convert``.

A long recording is read in windows, so that memory does not grow with it; what is written is the
same.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

from gpumemprof import _core
from gpumemprof.export.files import TableFile, pyarrow_or_error
from gpumemprof.read.recording import Recording, load

__all__ = ["TABLES", "Missing", "write_recorded"]

# As kTableNames of src/session/tables/run_tables.h.
TABLES = (
    *("events", "allocations", "segments", "stacks", "frames"),
    *("steps", "sources", "about"),
)
# Columns of small tables that are no numbers.
_TEXTS = {"device", "source", "provenance", "name", "value"}


class Missing(NamedTuple):
    """What a recording lacks: a sentence each, and where it was cut off."""

    sentences: list[str]
    cut: str | None


class _Batch:
    """A batch of the core, for any library that reads Arrow data."""

    def __init__(self, capsules: tuple[object, object]) -> None:
        self._capsules = capsules

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        return self._capsules


def write_recorded(
    recording: str | _core.RecordingHandle,
    paths: dict[str, str],
    table_format: str,
    device: int | None = None,
    finish: Callable[[Any], Any] | None = None,
) -> Missing:
    """Write tables of a recording on this machine.

    Args:
        recording: its file, or the part of it that is in memory.
        paths: the file of each table that is wanted.
        table_format: ``parquet`` or ``arrow``.
        device: only this one.
        finish: what is written instead of a batch or a table.
    """
    arrow = pyarrow_or_error()
    # What the recording says about itself: known before the first of the other tables.
    about: dict[str, str] = {}
    files = {name: TableFile(path, table_format, about) for name, path in paths.items()}

    def write(name: str, rows: Any) -> None:
        files[name].write(rows if finish is None else finish(rows))

    def show(
        name: str, capsules: tuple[object, object], rows: bytes | None, first: int, count: int
    ) -> None:
        batch = arrow.record_batch(_Batch(capsules))
        write(
            name, batch.slice(first, count) if rows is None else batch.take(_numbers(arrow, rows))
        )

    def show_small(name: str, columns: dict[str, list[int | str | None]]) -> None:
        if name == "about":
            _note(about, columns)
        if name not in files:
            return
        types = {
            column: arrow.string() if column in _TEXTS else arrow.int64() for column in columns
        }
        table = {column: arrow.array(values, types[column]) for column, values in columns.items()}
        write(name, arrow.table(table))

    source = os.fsencode(recording) if isinstance(recording, str) else recording
    with contextlib.ExitStack() as stack:
        for file in files.values():
            stack.callback(file.close)
        wanted = [*files, "about"]
        missing = Missing(*_core.show_tables(source, device, wanted, show, show_small))
        empty = [name for name, file in files.items() if not file.is_begun]
        if empty:
            whole = _whole(recording)
            for name in empty:
                write(name, arrow.table(getattr(whole, name)).slice(0, 0))
        return missing


def _note(about: dict[str, str], columns: dict[str, list[int | str | None]]) -> None:
    """For every file, as its metadata: one table may be all that somebody has."""
    for name, value in zip(columns["name"], columns["value"]):
        key = f"gpumemprof.{name}"
        about[key] = f"{about[key]}\n{value}" if key in about else str(value)


def _whole(recording: str | _core.RecordingHandle) -> Recording:
    """For tables without a row, which still have columns: of recordings without events."""
    if not isinstance(recording, str):
        return Recording(recording, "")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # What is missing has been said.
        return load(recording)


def _numbers(arrow: Any, values: bytes) -> Any:
    count = len(values) // 4
    return arrow.Array.from_buffers(arrow.uint32(), count, [None, arrow.py_buffer(values)])
