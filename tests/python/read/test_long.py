"""``load()`` of a recording too long for memory: what a short one says, read in windows."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import gpumemprof
import pytest
from capture_programs import run_program
from conftest import SNAPSHOTS

duckdb = pytest.importorskip("duckdb")
pa = pytest.importorskip("pyarrow")
pl = pytest.importorskip("polars")

TRAINING = SNAPSHOTS.parent / "traces" / "cpu_training.gmp"
TABLES = ["events", "allocations", "segments", "stacks", "frames"]
KEPT = """
import torch, gpumemprof
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8))
optimizer = torch.optim.AdamW(model.parameters())
kept = []
with gpumemprof.record("many.gmp", cpu=True, keep="1GiB"):
    for step in range(80):
        gpumemprof.step()
        model(torch.randn(32 + step % 5, 64)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 10 == 0:
            kept.append(torch.empty(1000 + step))
"""
TINY = {"GPUMEMPROF_CHAPTER_EVENTS": "400", "GPUMEMPROF_LEAST_KEEP": "1"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Chapters, some of which are gone."""
    made = tmp_path_factory.mktemp("kept")
    done = run_program(made, KEPT, environment=TINY)
    assert done.returncode == 0, done.stderr
    chapters = sorted((made / "many.gmp").glob("chapter-*.gmp"))
    assert len(chapters) > 9
    for gone in (*chapters[2:4], chapters[6]):
        gone.unlink()
    return made / "many.gmp"


@pytest.fixture(params=["file", "folder"])
def path(request: pytest.FixtureRequest) -> Path:
    return TRAINING if request.param == "file" else request.getfixturevalue("folder")


def load(path: Path) -> gpumemprof.Recording:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gpumemprof.CutFileWarning)
        return gpumemprof.load(path)


@pytest.fixture
def both(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[gpumemprof.Recording, gpumemprof.Recording]:
    """The recording in memory, and in windows."""
    whole = load(path)
    monkeypatch.setenv("GPUMEMPROF_WINDOW_EVENTS", "2000")
    return whole, load(path)


def test_its_reports_are_those_of_the_whole(
    both: tuple[gpumemprof.Recording, gpumemprof.Recording],
) -> None:
    whole, long = both
    assert type(whole._handle) is not type(long._handle)
    event = whole.report()["devices"][0]["events"] // 2
    for at in ("peak", "end", event):
        assert long.report(at=at) == whole.report(at=at)
    assert long.to_text(modules=True, steps=True) == whole.to_text(modules=True, steps=True)
    assert long.leaks() == whole.leaks()
    assert long.completeness == whole.completeness
    assert repr(long) == repr(whole)
    assert long._repr_html_() == whole._repr_html_()
    assert (long.streams, long.pools) == (whole.streams, whole.pools)
    assert long.stack(0) == whole.stack(0)


def rows_of(table: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pa.table(table).to_pylist()
    # A name that comes in a later window than the allocation is not known there.
    return [{key: row[key] for key in row if key != "name"} for row in rows]


@pytest.mark.parametrize("table", TABLES)
def test_its_tables_are_those_of_the_whole(
    table: str, both: tuple[gpumemprof.Recording, gpumemprof.Recording]
) -> None:
    whole, long = (getattr(one, table) for one in both)
    assert long.column_names == whole.column_names
    assert pa.schema(long) == pa.schema(whole)
    pa.table(long).validate(full=True)
    expected = rows_of(whole)
    assert rows_of(long) == expected
    assert len(long) == len(expected)
    assert repr(long) == repr(whole)
    columns = [name for name in whole.column_names if name != "name"]
    assert pl.DataFrame(long).select(columns).to_dicts() == expected
    assert duckdb.sql("SELECT count(*) FROM long").fetchall() == [(len(expected),)]


LONG_SETUP = """
import torch, gpumemprof
with gpumemprof.record("setup.gmp", cpu=True):
    data = [torch.randn(64) for _ in range(600)]
    data = [one / one.norm() for one in data]
    model = torch.nn.Linear(64, 64)
    optimizer = torch.optim.Adam(model.parameters())
    for step in range(30):
        model(torch.stack(data[step * 10 : step * 10 + 10])).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
"""


@pytest.mark.parametrize("window", ["400", "1000"])
def test_a_window_knows_the_phases_that_come_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, window: str
) -> None:
    done = run_program(tmp_path, LONG_SETUP)
    assert done.returncode == 0, done.stderr
    whole = rows_of(load(tmp_path / "setup.gmp").allocations)
    assert "temporaries" in {row["source"] for row in whole[:1000]}
    monkeypatch.setenv("GPUMEMPROF_WINDOW_EVENTS", window)
    assert rows_of(load(tmp_path / "setup.gmp").allocations) == whole


def test_its_tables_are_read_as_far_as_they_are_asked_for(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUMEMPROF_WINDOW_EVENTS", "500")
    events = load(path).events
    reader = pa.RecordBatchReader.from_stream(events)
    first = reader.read_next_batch()
    assert 0 < first.num_rows < len(events)
    rest = sum(batch.num_rows for batch in reader)
    assert first.num_rows + rest == len(events)
    # Neither a reader that stops nor one that never begins leaves anything behind.
    stopped = pa.RecordBatchReader.from_stream(events)
    stopped.read_next_batch()
    stopped.close()
    del stopped
    pa.RecordBatchReader.from_stream(events).close()


def test_what_needs_every_event_is_read_around_the_peak(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GPUMEMPROF_WINDOW_EVENTS", "2000")
    long = load(TRAINING)
    excerpt = long.advise()["completeness"]["excerpt"]
    assert excerpt is not None
    assert excerpt[0]["events_of_run"] == long.report()["devices"][0]["events"]


def test_a_list_of_all_names_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUMEMPROF_WINDOW_EVENTS", "2000")
    with pytest.raises(gpumemprof.UsageError, match="load a part"):
        load(TRAINING).labels()


def test_a_table_of_a_file_that_is_gone_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUMEMPROF_WINDOW_EVENTS", "2000")
    copy = tmp_path / "run.gmp"
    copy.write_bytes(TRAINING.read_bytes())
    events = load(copy).events
    copy.unlink()
    with pytest.raises(Exception, match="no such file"):
        pa.table(events)
