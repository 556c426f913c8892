"""What every exported table has: columns that say which recording a row is of, and plain types.

An engine reads all files of a table as one, so a column has the same type in each of them, whatever
is known; and none is unsigned, which Spark takes for decimals and Athena for negative.
"""

from __future__ import annotations

from typing import Any

from gpumemprof.export.files import pyarrow_or_error
from gpumemprof.ranks.summary import RankSummary

__all__ = ["KeyedRows"]


class KeyedRows:
    """Adds the columns ``job``, ``rank``, ``restart`` and ``recording`` to rows of one rank."""

    def __init__(self, rank: RankSummary, recording: str) -> None:
        """`recording` is its name, which no other one of the export has."""
        self._values = {
            "job": (rank.job, "string"),
            "rank": (rank.rank, "int64"),
            "restart": (rank.restart_count, "int64"),
            "recording": (recording, "string"),
        }

    def __call__(self, rows: Any) -> Any:
        """The rows of a batch or a table, as a table."""
        arrow = pyarrow_or_error()
        columns = {}
        for name, (value, kind) in self._values.items():
            scalar = arrow.scalar(value, arrow.type_for_alias(kind))
            columns[name] = arrow.repeat(scalar, rows.num_rows)
        for field, values in zip(rows.schema, rows.columns):
            is_unsigned = arrow.types.is_unsigned_integer(field.type)
            columns[field.name] = values.cast(arrow.int64()) if is_unsigned else values
        return arrow.table(columns)
