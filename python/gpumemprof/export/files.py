"""Writes Parquet and Arrow files, here or to a URL: each appears as a whole or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gpumemprof.errors import EnvironmentProblem
from gpumemprof.ranks.reading import places

__all__ = ["TableFile", "join", "pyarrow_or_error", "written_file"]

# DuckDB reads one row group with one thread, and wants at least 122,880 rows in each.
_ROW_GROUP_ROWS = 1 << 20


def pyarrow_or_error() -> Any:
    """The module that writes Parquet and Arrow files.

    Raises:
        EnvironmentProblem: it is not installed.
    """
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError:
        raise EnvironmentProblem(
            "writing Parquet or Arrow files needs PyArrow",
            "environment",
            "",
            "install it with: pip install pyarrow",
        ) from None
    return pyarrow


def join(folder: str, *names: str) -> str:
    """A place below a folder, which may be a URL.

    >>> join("s3://bucket/out/", "steps", "job=7")
    's3://bucket/out/steps/job=7'
    """
    return "/".join([folder.rstrip("/") or folder, *names])


@contextlib.contextmanager
def written_file(place: str) -> Iterator[str]:
    """A path to write to; what is there at the end becomes the file."""
    if places.is_url(place):
        with tempfile.TemporaryDirectory(prefix="gpumemprof-") as folder:
            local = str(Path(folder) / "part")
            yield local
            if Path(local).exists():
                places.put_file(local, place)
        return
    path = Path(places.local_path(place))
    path.parent.mkdir(parents=True, exist_ok=True)
    # Two workers may be at it, if one of them was thought to be lost.
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield str(part)
        if part.exists():
            part.replace(path)
    finally:
        part.unlink(missing_ok=True)


class TableFile:
    """One file, Parquet or Arrow IPC, written part by part; its columns are those of the first."""

    def __init__(
        self, path: str, table_format: str = "parquet", about: dict[str, str] | None = None
    ) -> None:
        """Nothing is written yet; `about` becomes the metadata of the file when it is begun."""
        self._path = path
        self._format = table_format
        self._about = {} if about is None else about
        self._writer: Any = None

    @property
    def is_begun(self) -> bool:
        """Whether anything was written, be it without a row."""
        return self._writer is not None

    def write(self, batch: Any) -> None:
        """Add a record batch, or a table."""
        arrow = pyarrow_or_error()
        if self._about:
            batch = batch.replace_schema_metadata({**(batch.schema.metadata or {}), **self._about})
        if self._format == "arrow":
            if self._writer is None:
                # Every batch has the texts of the whole recording: they are written once.
                options = arrow.ipc.IpcWriteOptions(
                    compression="zstd", emit_dictionary_deltas=True, unify_dictionaries=True
                )
                self._writer = arrow.ipc.new_file(self._path, batch.schema, options=options)
            self._writer.write(batch)
            return
        if self._writer is None:
            self._writer = arrow.parquet.ParquetWriter(self._path, batch.schema, compression="zstd")
        self._writer.write(batch, row_group_size=_ROW_GROUP_ROWS)

    def close(self) -> None:
        """The file is complete."""
        if self._writer is not None:
            self._writer.close()
