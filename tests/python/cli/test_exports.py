"""``gpumemprof convert`` to profiles, traces and tables: totals are those of the report."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import gpumemprof
import pandas
import pyarrow.feather
import pyarrow.parquet
import pytest
from conftest import Command, snapshot_path

DATA = Path(__file__).resolve().parents[2] / "data"
TABLES = (
    *("events", "allocations", "segments", "stacks", "frames"),
    *("steps", "sources", "about"),
)


def report(command: Command, source: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(command("report", source, "--json").stdout)
    return loaded


def write(command: Command, source: Path, out: Path, *flags: str) -> None:
    done = command("convert", source, out, *flags)
    assert done.returncode == 0, done.stderr
    assert f"Written to {out}" in done.stdout
    assert "docs/" not in done.stdout  # which a wheel does not install


@pytest.fixture
def source() -> Path:
    return DATA / "traces" / "cpu_training.gmp"


def live_at(table: pandas.DataFrame, event: int) -> pandas.DataFrame:
    born = table["alloc_event"].isna() | (table["alloc_event"] <= event)
    freed = table["free_requested_event"].notna() & (table["free_requested_event"] <= event)
    return table[born & ~freed]


def read_table(folder: Path, name: str, suffix: str) -> pandas.DataFrame:
    path = folder / f"{name}.{suffix}"
    if suffix == "parquet":
        return pyarrow.parquet.read_table(path).to_pandas()
    if suffix == "arrow":
        return pyarrow.feather.read_table(path).to_pandas()
    return pandas.read_csv(path)


@pytest.mark.parametrize("suffix", ["csv", "parquet", "arrow"])
@pytest.mark.parametrize("window", [None, "300", "a snapshot"])
def test_tables_equal_the_report(
    command: Command,
    source: Path,
    tmp_path: Path,
    suffix: str,
    window: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if window == "a snapshot":
        source, window = snapshot_path("mlp_b64_fp32_adam"), None
    expected = report(command, source)["devices"][0]
    if window is not None:
        monkeypatch.setenv("GPUMEMPROF_WINDOW_EVENTS", window)
    folder = tmp_path / "tables"
    write(command, source, folder, "--to", suffix)
    tables = {name: read_table(folder, name, suffix) for name in TABLES}
    assert len(tables["events"]) == expected["events"]
    allocations = tables["allocations"]
    peak = expected["peak"]
    assert live_at(allocations, peak["event_index"])["size_bytes"].sum() == peak["allocated_bytes"]
    sources = tables["sources"].set_index("source")
    for name, figure in expected["sources"].items():
        assert sources.loc[name, "bytes_at_peak"] == figure["bytes_at_peak"]
        assert sources.loc[name, "bytes_max"] == figure["bytes_max"]
        assert sources.loc[name, "provenance"] == figure["provenance"]
    assert sources["bytes_at_peak"].sum() == peak["allocated_bytes"]
    steps = tables["steps"].set_index("step")
    for step in expected["steps"]:
        assert steps.loc[step["step"], "peak_bytes"] == step["peak_bytes"]
    assert steps["peak_bytes"].max() == peak["allocated_bytes"]
    reserved = tables["segments"]
    alive = reserved["death_event"].isna()
    assert reserved[alive]["size_bytes"].sum() == (expected["end"]["reserved_bytes"] or 0)
    assert tables["stacks"]["frame"].max() < len(tables["frames"])
    about = tables["about"].set_index("name")["value"]
    assert about["figures"] == "measured"


def test_csv_reads_as_the_tables_of_the_package(
    command: Command, source: Path, tmp_path: Path
) -> None:
    out = tmp_path / "allocations.csv"
    write(command, source, out, "--to", "csv", "--table", "allocations")
    expected = gpumemprof.load(source).allocations.to_pandas()
    found = pandas.read_csv(out)
    assert list(found.columns) == list(expected.columns)
    for column in (
        "size_bytes",
        "alloc_event",
        "file",
        "line",
        "source",
        "time_ns",
        "step",
        "name",
    ):
        left, right = found[column], expected[column]
        assert left.isna().tolist() == right.isna().tolist()
        assert left.dropna().tolist() == right.dropna().tolist()


def test_speedscope_adds_up(command: Command, source: Path, tmp_path: Path) -> None:
    out = tmp_path / "run.json"
    write(command, source, out, "--to", "speedscope")
    file = json.loads(out.read_text())
    device = report(command, source)["devices"][0]
    totals = [sum(profile["weights"]) for profile in file["profiles"]]
    assert totals[:2] == [device["peak"]["allocated_bytes"], device["end"]["allocated_bytes"]]


@pytest.mark.parametrize("name", ["pprof", "speedscope"])
def test_windows_change_nothing(
    command: Command, source: Path, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(command, source, tmp_path / "whole", "--to", name)
    monkeypatch.setenv("GPUMEMPROF_WINDOW_EVENTS", "300")
    write(command, source, tmp_path / "windows", "--to", name)
    assert (tmp_path / "whole").read_bytes() == (tmp_path / "windows").read_bytes()


def test_parts_have_the_same_tables(command: Command, source: Path, tmp_path: Path) -> None:
    write(command, source, tmp_path / "csv", "--to", "csv", "--events", "100:200")
    write(command, source, tmp_path / "arrow", "--to", "arrow", "--events", "100:200")
    with (tmp_path / "csv" / "events.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(read_table(tmp_path / "arrow", "events", "arrow")) >= 100


MISTAKES = [
    (["--to", "csv", "--table", "nothing"], "there is no table 'nothing'"),
    (["--to", "arrow", "--table", "nothing"], "there is no table 'nothing'"),
    (["--to", "gmp", "--table", "events"], "--table does not belong to --to gmp"),
    (["--to", "perfetto", "--at", "end"], "--at does not belong to --to perfetto"),
    (["--to", "pprof", "--clock-of", "x"], "--clock-of does not belong to --to pprof"),
    (["--to", "pprof", "--at", "soon"], "--at takes an event number, step:N, peak or end"),
    (["--to", "pprof", "--at", "step:5"], "convert shows no step; name the event"),
    (["--to", "pprof", "--at", "99999999"], "there is no event 99999999"),
    (["--to", "csv", "--device", "7"], "there is no device 7"),
    (["--to", "parquet", "--device", "7"], "there is no device 7"),
    (["--to", "parquet", "--steps", "x"], "--steps takes two numbers"),
    (["--to", "parquet", "--at", "end"], "--at does not belong to --to parquet"),
    (["--to", "arrow", "--clock-of", "x"], "--clock-of does not belong to --to arrow"),
]


@pytest.mark.parametrize(("flags", "sentence"), MISTAKES)
def test_mistakes_are_one_sentence_and_leave_nothing(
    command: Command, source: Path, tmp_path: Path, flags: list[str], sentence: str
) -> None:
    out = tmp_path / "out"
    done = command("convert", source, out, *flags)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1
    assert not out.exists()


SUFFIXES = {
    **{name: name for name in ("gmp", "folded", "csv", "parquet", "arrow")},
    "torch-snapshot": "pickle",
    "pprof": "pb.gz",
    "speedscope": "speedscope.json",
    "perfetto": "pftrace",
}


@pytest.mark.parametrize("name", SUFFIXES)
def test_the_suffix_of_the_output_says_the_format(
    command: Command, source: Path, tmp_path: Path, name: str
) -> None:
    table = ("--table", "frames") if name in {"csv", "parquet", "arrow"} else ()
    out, asked = tmp_path / f"out.{SUFFIXES[name]}", tmp_path / "asked"
    write(command, source, asked, "--to", name, *table)
    # Between the words, where flags may stand too.
    done = command("convert", source, *table, out)
    assert done.returncode == 0, done.stderr
    assert out.read_bytes() == asked.read_bytes()
    write(command, source, tmp_path / "other.parquet", "--to", "gmp")
    assert (tmp_path / "other.parquet").read_bytes().startswith(b"\x89GMP")


@pytest.mark.parametrize("name", ["csv", "parquet"])
@pytest.mark.parametrize("flags", [[], ["-f"]], ids=["", "force"])
def test_tables_do_not_replace_a_file(
    command: Command, source: Path, tmp_path: Path, name: str, flags: list[str]
) -> None:
    out = tmp_path / "out"
    out.write_text("mine")
    done = command("convert", source, out, "--to", name, *flags)
    assert done.returncode == 2
    assert "is a file, and all tables need a folder" in done.stderr or not flags
    assert out.read_text() == "mine"


def test_what_is_missing_is_said_inside(command: Command, tmp_path: Path) -> None:
    source = DATA / "traces" / "everything.gmp"
    for name in ("speedscope", "perfetto", "csv"):
        assert command("convert", source, tmp_path / name, "--to", name).returncode == 0
    assert "17 events were lost" in json.loads((tmp_path / "speedscope").read_text())["name"]
    assert b"17 events were lost" in (tmp_path / "perfetto").read_bytes()
    assert "17 events were lost" in (tmp_path / "csv" / "about.csv").read_text()


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_what_is_missing_is_said_in_each_file(
    command: Command, tmp_path: Path, suffix: str
) -> None:
    source = DATA / "traces" / "everything.gmp"
    assert command("convert", source, tmp_path / "all", "--to", suffix).returncode == 0
    one = tmp_path / "one"
    flags = ("--to", suffix, "--table", "allocations")
    assert command("convert", source, one, *flags).returncode == 0
    for path in (one, *((tmp_path / "all" / f"{name}.{suffix}") for name in TABLES)):
        read = pyarrow.parquet.read_schema if suffix == "parquet" else pyarrow.feather.read_table
        found = read(path)
        metadata = (found if suffix == "parquet" else found.schema).metadata
        assert metadata[b"gpumemprof.lost_events"] == b"at least 17", path
        assert b"17 events were lost" in metadata[b"gpumemprof.missing"]


def test_a_recording_without_events_has_tables_without_rows(
    command: Command, tmp_path: Path
) -> None:
    source = DATA / "traces" / "empty.gmp"
    for suffix in ("csv", "parquet"):
        write(command, source, tmp_path / suffix, "--to", suffix)
    for name in TABLES:
        header = (tmp_path / "csv" / f"{name}.csv").read_text().splitlines()[0]
        assert header.split(",")[0] in {"device", "stack", "frame", "name"}
    assert len(read_table(tmp_path / "parquet", "about", "parquet")) >= 5
    done = command("convert", source, tmp_path / "trace", "--to", "perfetto")
    assert done.returncode == 3
    assert "it has no events with times" in done.stderr


def test_a_trace_of_cpu_tensors_has_no_counter_of_what_is_reserved(
    command: Command, source: Path, tmp_path: Path
) -> None:
    for recording, is_there in ((source, False), (snapshot_path("mlp_b64_fp32_adam"), True)):
        write(command, recording, tmp_path / recording.stem, "--to", "perfetto")
        trace = (tmp_path / recording.stem).read_bytes()
        assert b":0 allocated" in trace
        assert (b":0 reserved" in trace) == is_there


def test_a_clock_of_a_later_run_is_refused(command: Command, source: Path, tmp_path: Path) -> None:
    other = tmp_path / "later.json"
    other.write_text('{"baseTimeNanoseconds": 4000000000000000000, "traceEvents": []}')
    done = command("convert", source, tmp_path / "out", "--to", "perfetto", "--clock-of", other)
    assert done.returncode == 3
    assert "later.json: its clock begins after this recording" in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_clock_needs_a_trace(command: Command, source: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_text("{}")
    done = command("convert", source, tmp_path / "out", "--to", "perfetto", "--clock-of", other)
    assert done.returncode == 3
    assert "this is not a trace of torch.profiler" in done.stderr


def test_without_pyarrow_a_sentence_says_what_to_install(
    command: Command, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "pyarrow.py").write_text("raise ImportError('not here')\n")
    monkeypatch.setenv("PYTHONPATH", str(hidden))
    done = command("convert", source, tmp_path / "out", "--to", "parquet")
    assert done.returncode == 4
    assert "pip install pyarrow" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_an_existing_folder_stays(command: Command, source: Path, tmp_path: Path) -> None:
    for suffix in ("csv", "parquet"):
        out = tmp_path / suffix
        out.mkdir()
        (out / "mine").write_text("kept")
        done = command("convert", source, out, "--to", suffix)
        assert done.returncode == 2
        assert "already exists" in done.stderr
        assert [path.name for path in out.iterdir()] == ["mine"]
        write(command, source, out, "--to", suffix, "-f")
        assert (out / f"sources.{suffix}").exists()


@pytest.mark.parametrize("freed", [False, True])
def test_perfetto_names_the_rank_and_shows_collections_that_freed_memory(
    command: Command, tmp_path: Path, freed: bool
) -> None:
    program = """
import gc, sys, torch, gpumemprof
class Holder:
    def __init__(self, value):
        self.itself, self.value = self, value
gc.disable()
with gpumemprof.record("run.gmp"):
    kept = torch.ones(9)
    for _ in range(3):
        Holder(torch.ones(99) if sys.argv[1] == "True" else None)
        gc.collect()
"""
    words = [sys.executable, "-c", program, str(freed)]
    rank = {"RANK": "3", "WORLD_SIZE": "8"}
    subprocess.run(words, cwd=tmp_path, env={**os.environ, **rank}, check=True)
    write(command, tmp_path / "run.gmp", tmp_path / "trace", "--to", "perfetto")
    trace = (tmp_path / "trace").read_bytes()
    assert b"rank 3: " in trace
    assert (b"garbage collection" in trace) == freed
