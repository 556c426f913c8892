"""The tables: every Arrow reader sees the same rows, without a copy."""

from __future__ import annotations

import gc
import pickle

import gpumemprof
import pytest
from conftest import recording_of

duckdb = pytest.importorskip("duckdb")
pa = pytest.importorskip("pyarrow")
pl = pytest.importorskip("polars")
pc = pytest.importorskip("pyarrow.compute")

TABLES = ["events", "allocations", "segments", "stacks", "frames"]
MADE_FOR_A_READER = {"device", "event", "segment", "is_expandable", "is_small"}
MADE_OF_EVENTS = {"tag", "step", "time_ns", "free_time_ns", "file", "line", "function"}


@pytest.mark.parametrize("table", TABLES)
def test_reads_the_same_rows_with_every_library(table, recording):
    rows = getattr(recording, table)
    arrow = pa.table(rows)
    arrow.validate(full=True)
    assert arrow.schema == pa.schema(rows)
    assert arrow.column_names == rows.column_names
    plain = arrow.to_pylist()
    assert len(plain) == len(rows)
    assert pl.DataFrame(rows).to_dicts() == plain
    found = duckdb.sql("SELECT * FROM rows")
    assert [dict(zip(found.columns, row)) for row in found.fetchall()] == plain


def test_bytes_are_signed_and_devices_have_names(recording):
    for table in TABLES[:3]:
        rows = pa.table(getattr(recording, table))
        assert set(rows["device"].to_pylist()) <= {device.device for device in recording.devices}
        for name in rows.column_names:
            if name.endswith("_bytes") or name == "address":
                assert rows.schema.field(name).type == pa.int64(), name


def test_tables_account_for_the_peak(recording):
    (device,) = recording.devices
    peak = device.peak.event_index
    live = pl.DataFrame(recording.allocations).filter(
        pl.col("alloc_event").fill_null(0) <= peak,
        pl.col("free_requested_event").is_null() | (pl.col("free_requested_event") > peak),
    )
    assert live["size_bytes"].sum() == device.peak.allocated_bytes
    segments = recording.segments  # noqa: F841
    reserved = duckdb.sql(
        f"SELECT sum(size_bytes) FROM segments WHERE coalesce(birth_event, 0) <= {peak}"
        f" AND (death_event IS NULL OR death_event > {peak})"
    ).fetchall()
    assert reserved == [(device.peak.reserved_bytes,)]


def test_tables_account_for_the_end(recording):
    (device,) = recording.devices
    blocks = pa.table(recording.allocations)
    allocated = blocks.filter(pc.is_null(blocks["free_requested_event"]))
    active = blocks.filter(pc.is_null(blocks["free_completed_event"]))
    assert (pc.sum(allocated["size_bytes"]).as_py() or 0) == device.end.allocated_bytes
    assert (pc.sum(active["size_bytes"]).as_py() or 0) == device.end.active_bytes
    assert (pc.sum(active["requested_bytes"]).as_py() or 0) == device.end.requested_bytes


def test_events_are_counted_as_in_the_report(recording):
    counted = dict(pl.DataFrame(recording.events)["action"].value_counts().rows())
    counters = recording.devices[0].counters
    assert counted.get("alloc", 0) == counters.allocations
    assert counted.get("free_requested", 0) == counters.frees
    assert counted.get("segment_alloc", 0) == counters.segment_allocs
    assert counted.get("oom", 0) == counters.ooms


def test_an_oom_tells_what_the_device_had_free_instead_of_an_address(oom_run):
    events = pl.DataFrame(oom_run.events)
    ooms = events.filter(pl.col("action") == "oom")
    assert ooms["address"].to_list() == [None]
    reports = oom_run.report()["devices"][0]["oom_reports"]
    assert ooms["device_free_bytes"].to_list() == [reports[0]["device_free_bytes"]]
    assert ooms["event"].to_list() == [reports[0]["event_index"]]
    others = events.filter(pl.col("action") != "oom")
    assert others["address"].null_count() == 0
    assert others["device_free_bytes"].null_count() == len(others)


def test_ids_lead_from_an_allocation_to_its_lines(oom_run):
    blocks, stacks, frames = oom_run.allocations, oom_run.stacks, oom_run.frames  # noqa: F841
    found = duckdb.sql(
        "SELECT stack, frames.name, frames.file, frames.line FROM blocks JOIN stacks USING (stack)"
        " JOIN frames USING (frame) ORDER BY size_bytes DESC LIMIT 1"
    ).fetchall()
    stack, *frame = found[0]
    assert oom_run.stack(stack)[0] == gpumemprof.Frame(*frame)
    caller = pl.DataFrame(stacks).filter(pl.col("stack") == stack)["caller"].item()
    assert oom_run.stack(stack)[1:] == oom_run.stack(caller)
    outermost = pl.DataFrame(stacks).filter(pl.col("caller").is_null())
    assert len(oom_run.stack(outermost["stack"][0])) == 1


def test_streams_and_pools_are_told_by_index():
    recording = recording_of("stress_s_default_streams_cap")
    used = pl.DataFrame(recording.allocations)["stream"].unique()
    assert set(used) == set(range(len(recording.streams)))
    assert len(recording.streams) == 3
    pooled = recording_of("cudagraph")
    pools = pl.DataFrame(pooled.segments)["pool"].drop_nulls().unique()
    assert {pooled.pools[pool] for pool in pools} > {(0, 0)}


@pytest.mark.parametrize("table", ["events", "allocations", "segments", "stacks"])
def test_columns_are_not_copied(table, oom_run):
    rows = getattr(oom_run, table)
    first, second = pa.table(rows), pa.table(rows)
    made = MADE_FOR_A_READER | {"stack"} if table == "stacks" else MADE_FOR_A_READER
    optional = {"compile_context", "user_metadata", "pool", "forward_stack", "module"}
    absent = optional if table == "events" else set()
    if table == "allocations":
        absent = MADE_OF_EVENTS | {"name", "module"}  # without labels no row has a name
    for column in set(rows.column_names) - made - absent:
        ((one,), (other,)) = first[column].chunks, second[column].chunks
        # The last buffer holds the values; the first is the bitmap of nulls.
        assert one.buffers()[-1].address == other.buffers()[-1].address, column


def test_polars_reads_in_place_too(oom_run):
    table = pa.table(oom_run.allocations)
    frame = pl.DataFrame(oom_run.allocations)
    address = table["size_bytes"].chunks[0].buffers()[-1].address
    # Polars also exports its own columns without a copy.
    assert frame["size_bytes"].to_arrow().buffers()[-1].address == address


def test_a_column_without_nulls_has_no_bitmap(oom_run):
    table = pa.table(oom_run.events)
    assert table["time_ns"].chunks[0].buffers()[0] is None
    assert table["address"].null_count == 1
    assert table["address"].chunks[0].buffers()[0] is not None


def test_data_outlives_the_recording():
    recording = gpumemprof.load(gpumemprof.demo_path())
    expected = recording.devices[0].counters.allocations
    table = pa.table(recording.allocations)
    column = table["size_bytes"]
    dictionary = pa.table(recording.events)["action"].chunks[0].dictionary
    total = pc.sum(column).as_py()
    rows = recording.allocations
    del recording, table
    gc.collect()
    assert pc.sum(column).as_py() == total
    assert dictionary[0].as_py() == "alloc"
    assert len(rows) == expected == len(pa.table(rows))


def test_a_capsule_nobody_reads_is_let_go(oom_run):
    for _ in range(3):
        assert "arrow_array_stream" in repr(oom_run.events.__arrow_c_stream__())
        assert "arrow_schema" in repr(oom_run.frames.__arrow_c_schema__())
    stream = pa.RecordBatchReader.from_stream(oom_run.events)
    stream.close()


def test_a_recording_without_events_has_empty_tables(tmp_path):
    path = tmp_path / "empty.pickle"
    path.write_bytes(pickle.dumps({"segments": [], "device_traces": []}))
    recording = gpumemprof.load(path)
    for table in TABLES:
        rows = getattr(recording, table)
        assert len(rows) == 0
        assert pa.table(rows).column_names == rows.column_names
        assert pl.DataFrame(rows).columns == rows.column_names
        assert duckdb.sql("SELECT count(*) FROM rows").fetchall() == [(0,)]
