"""Writes the small tables of many recordings: one file for each table and job."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import quote

from gpumemprof.errors import InputError, MissingFileError
from gpumemprof.export.files import TableFile, join, pyarrow_or_error, written_file
from gpumemprof.ranks.reading import places

__all__ = ["JobFiles"]

# What waits to be written, in all; each write is a row group.
_MOST_ROWS = 1 << 20
_MOST_PARTS = 256

Key = tuple[str, "str | None"]


class JobFiles:
    """The files appear when all of them are complete: at the end of the ``with`` block.

    Rows of other recordings that a file holds already stay in it.
    """

    def __init__(self, out: str, recordings: set[str]) -> None:
        """`recordings` are the names of all that are written."""
        self._out = out
        self._recordings = recordings
        self._waiting: dict[Key, list[Any]] = {}
        self._rows: Counter[Key] = Counter()
        self._files: dict[Key, TableFile] = {}
        self._open = contextlib.ExitStack()

    def __enter__(self) -> JobFiles:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            self._open.__exit__(kind, error, trace)
            return
        with self._open:
            for key in list(self._waiting):
                self._flush(key)

    def add(self, job: str | None, tables: dict[str, Any]) -> None:
        """The tables of one recording."""
        for name, table in tables.items():
            key = name, job
            parts = self._waiting.setdefault(key, [])
            parts.append(table)
            self._rows[key] += table.num_rows
            if len(parts) == _MOST_PARTS:
                parts[:] = [_joined(parts)]
        while sum(self._rows.values()) > _MOST_ROWS:
            ((key, _),) = self._rows.most_common(1)
            self._flush(key)

    def _flush(self, key: Key) -> None:
        del self._rows[key]
        table = _joined(self._waiting.pop(key))
        if key not in self._files:
            self._files[key] = self._begin(key, table.schema)
        self._files[key].write(table)

    def _begin(self, key: Key, schema: Any) -> TableFile:
        name, job = key
        of_job = "no-job" if job is None else f"job-{quote(job, safe='')}"
        place = join(self._out, name, f"{of_job}.parquet")
        path = self._open.enter_context(written_file(place))
        file = self._open.enter_context(contextlib.closing(TableFile(path)))
        for part in self._kept(place, schema):
            file.write(part)
        return file

    def _kept(self, place: str, schema: Any) -> Iterator[Any]:
        """What the file that is there says about other recordings."""
        arrow = pyarrow_or_error()
        written = arrow.array(sorted(self._recordings), arrow.string())
        with contextlib.suppress(MissingFileError), places.local_copy(place) as path:
            if not Path(path).exists():
                return
            with arrow.parquet.ParquetFile(path) as old:
                if not old.schema_arrow.equals(schema):
                    raise InputError(
                        "it was written by another version of gpumemprof",
                        "bad_input",
                        place,
                        "write to another folder",
                    )
                for batch in old.iter_batches():
                    is_new = arrow.compute.is_in(batch["recording"], value_set=written)
                    yield batch.filter(arrow.compute.invert(is_new))


def _joined(parts: list[Any]) -> Any:
    return pyarrow_or_error().concat_tables(parts).combine_chunks()
