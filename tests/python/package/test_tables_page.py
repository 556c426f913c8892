"""The examples of docs/tables.md run and print what the page says."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import pytest
from page_examples import examples

for library in ("pandas", "polars", "duckdb", "pyarrow"):
    pytest.importorskip(library)

PAGE = Path(__file__).resolve().parents[3] / "docs" / "tables.md"


def test_the_page_prints_what_it_says():
    names: dict[str, object] = {"__name__": "page"}
    seen = []
    for example in examples(PAGE.read_text(encoding="utf-8")):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            # Globals of their own: DuckDB finds tables by variable name.
            exec(compile(example.code, "page", "exec"), names)
        if example.output is not None:
            assert printed.getvalue().strip() == example.output
        seen.append(printed.getvalue())
    assert len(seen) >= 5
    assert sum(bool(text) for text in seen) >= 4
