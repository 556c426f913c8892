"""Random synthetic snapshots, written by Python's own pickle, against totals counted in Python."""

from __future__ import annotations

import gzip
import pickle
import tempfile
from pathlib import Path

import gpumemprof
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up import KIB, MIB, MadeUpDevice, Totals, snapshot_of

pa = pytest.importorskip("pyarrow")

FRAMES = [{"name": f"f{n}", "filename": f"/train/däta_{n % 3}.py", "line": n} for n in range(6)]
# Shared lists and dictionaries, as torch writes them: the memo must keep them shared.
STACKS = [[], FRAMES[:1], FRAMES[1:4], FRAMES[2:], [FRAMES[0], FRAMES[5]]]

SIZES = st.one_of(
    st.integers(1, 4 * KIB),
    st.integers(1, 2 * MIB),
    st.integers(1, 64 * MIB),
    st.sampled_from([512, 513, MIB, MIB + 1, 10 * MIB - 1, 10 * MIB, 20 * MIB]),
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("allocate"), SIZES, st.integers(0, len(STACKS) - 1)),
        st.tuples(st.sampled_from(["free", "let_go", "complete"]), st.integers(0, 99), st.just(0)),
        st.tuples(st.just("empty_cache"), st.just(0), st.just(0)),
    ),
    max_size=60,
)
DUMPS = st.tuples(st.integers(0, 5), st.booleans())


def run(device, steps):
    live, pending = [], []
    for action, number, stack in steps:
        if action == "allocate":
            live.append(device.allocate(number, STACKS[stack]))
        elif action == "empty_cache":
            device.empty_cache()
        elif action == "complete" and pending:
            device.complete(pending.pop(number % len(pending)))
        elif action in {"free", "let_go"} and live:
            block = live.pop(number % len(live))
            device.let_go(block)
            if action == "free":
                device.complete(block)
            else:
                pending.append(block)
    return device


def load(snapshot, dump):
    protocol, is_zipped = dump
    content = pickle.dumps(snapshot, protocol)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "made_up.pickle")
        path.write_bytes(gzip.compress(content, 1) if is_zipped else content)
        return gpumemprof.load(path)


def assert_ends_like(report, device):
    last = device.totals[-1] if device.totals else Totals(0, 0, 0, 0)
    end = report.end
    found = Totals(end.allocated_bytes, end.active_bytes, end.reserved_bytes, end.requested_bytes)
    assert found == last
    assert end.segments == len(device.segments)


@settings(max_examples=150, deadline=None)
@given(STEPS, STEPS, DUMPS, st.booleans())
def test_finds_the_totals_that_were_counted(steps, other_steps, dump, has_times):
    devices = [run(MadeUpDevice(0, has_times), steps), run(MadeUpDevice(1), other_steps)]
    recording = load(snapshot_of(devices), dump)
    assert recording.cut is None
    reports = {report.device: report for report in recording.devices}
    for number, device in enumerate(devices):
        if not device.trace:
            continue
        report = reports[f"cuda:{number}"]
        assert report.exact_from_event == 0
        assert_ends_like(report, device)
        highest = max(totals.allocated for totals in device.totals)
        peak = report.peak
        assert peak.allocated_bytes == highest
        if peak.event_index is None:
            assert highest == 0
        else:
            totals = device.totals[peak.event_index]
            assert totals.allocated == highest
            assert (peak.reserved_bytes, peak.requested_bytes) == (
                totals.reserved,
                totals.requested,
            )
            assert peak.time_us == device.trace[peak.event_index].get("time_us")
        assert report.peak_reserved_bytes == max(totals.reserved for totals in device.totals)


@settings(max_examples=60, deadline=None)
@given(STEPS, STEPS, DUMPS)
def test_tables_hold_what_was_written(steps, other_steps, dump):
    devices = [run(MadeUpDevice(0, False), steps), run(MadeUpDevice(1), other_steps)]
    recording = load(snapshot_of(devices), dump)
    written = [(device.device, n, e) for device in devices for n, e in enumerate(device.trace)]
    rows = pa.table(recording.events).to_pylist()
    assert len(rows) == len(written)
    for row, (device, number, event) in zip(rows, written):
        assert row["device"] == f"cuda:{device}"
        assert (row["event"], row["action"]) == (number, event["action"])
        assert (row["address"], row["size_bytes"]) == (event["addr"], event["size"])
        time_us = event.get("time_us")
        assert row["time_ns"] == (None if time_us is None else time_us * 1000)
        frames = [] if row["stack"] is None else recording.stack(row["stack"])
        assert [(f.name, f.file, f.line) for f in frames] == [
            (f["name"], f["filename"], f["line"]) for f in event.get("frames", [])
        ]


@settings(max_examples=100, deadline=None)
@given(STEPS, st.integers(1, 40), DUMPS)
def test_a_ring_that_lost_its_start_still_ends_right(steps, lost_events, dump):
    device = run(MadeUpDevice(0), steps)
    if len(device.trace) <= lost_events:
        return
    (report,) = load(snapshot_of([device], lost_events), dump).devices
    assert_ends_like(report, device)
    # From the event that the report names, every figure is exact.
    exact_from = report.exact_from_event
    if exact_from == 0:
        kept = device.totals[lost_events - 1 :]
        assert report.peak.allocated_bytes == max(totals.allocated for totals in kept)
        assert report.peak_reserved_bytes == max(totals.reserved for totals in kept)
