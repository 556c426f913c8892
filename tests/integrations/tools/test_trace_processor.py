"""Traces as Perfetto's own trace processor sees them, asked in SQL, alone and beside Kineto's."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gpumemprof
import pandas
import pytest
from perfetto_sql import TraceProcessor

PROGRAM = """
import torch
from torch.profiler import ProfilerActivity, profile, record_function

def forward(model):
    return model(torch.randn(32, 64))

def main():
    model = torch.nn.Linear(64, 64)
    optimizer = torch.optim.Adam(model.parameters())
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        for number in range(20):
            with record_function(f"kineto step {number}"):
                forward(model).sum().backward()
                optimizer.step()
                optimizer.zero_grad()
                torch.ones(3_000_017)
    profiled.export_chrome_trace("trace.json")

main()
"""
MARKED_BYTES = 4 * 3_000_017
MARKED_LINE = 1 + PROGRAM.splitlines().index("                torch.ones(3_000_017)")
SECONDS = 1_000_000_000


@pytest.fixture(scope="module")
def processor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TraceProcessor]:
    with TraceProcessor(tmp_path_factory.mktemp("processor")) as started:
        yield started


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of a run that torch.profiler traced too, and the trace made of it."""
    folder = tmp_path_factory.mktemp("run")
    (folder / "train.py").write_text(PROGRAM)
    for words in (
        ("run", "--cpu", "-o", "run.gmp", "train.py"),
        ("convert", "run.gmp", "run.pftrace", "--to", "perfetto", "--clock-of", "trace.json"),
    ):
        command = [sys.executable, "-m", "gpumemprof", *words]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    return folder


def instants(processor: TraceProcessor) -> pandas.DataFrame:
    """Allocations: when, how large, and with which stack."""
    return pandas.DataFrame(
        processor.rows(
            "select s.ts, s.name, extract_arg(s.arg_set_id, 'debug.bytes') as bytes, "
            "extract_arg(s.arg_set_id, 'debug.stack') as stack "
            "from slice s join track t on t.id = s.track_id "
            "where t.name glob '* allocations' and s.name != 'out of memory' order by s.ts"
        )
    )


def report(folder: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "gpumemprof", "report", "run.gmp", "--json"]
    text = subprocess.run(command, cwd=folder, capture_output=True, check=True).stdout
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def test_every_allocation_has_its_bytes_and_its_stack(
    processor: TraceProcessor, folder: Path
) -> None:
    processor.load(folder / "run.pftrace")
    found = instants(processor)
    made = gpumemprof.load(folder / "run.gmp").allocations.to_pandas()
    made = made[made.alloc_event.notna()]
    assert len(found) == len(made)
    assert found.bytes.sum() == made.size_bytes.sum()
    assert found.groupby("name").bytes.sum().to_dict() == (
        made.groupby("source", observed=True).size_bytes.sum().to_dict()
    )
    marked = found[found.bytes == MARKED_BYTES]
    assert len(marked) == 20
    inner = f"main (train.py:{MARKED_LINE}) < <module> (train.py:"
    assert all(text.startswith(inner) for text in marked["stack"])


def test_the_user_sees_no_error(processor: TraceProcessor, folder: Path) -> None:
    processor.load(folder / "run.pftrace")
    assert processor.problems() == {}
    processor.load(both(folder))
    assert processor.problems() == {}


def both(folder: Path) -> Path:
    """Our trace and Kineto's in one archive, as the page packs them."""
    archive = folder / "both.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.write(folder / "run.pftrace", "memory.pftrace")
        packed.write(folder / "trace.json", "trace.json")
    return archive


def test_the_peak_is_a_heap_profile_with_functions(processor: TraceProcessor, folder: Path) -> None:
    processor.load(folder / "run.pftrace")
    (device,) = report(folder)["devices"]
    rows = processor.rows(
        "select f.name, sum(a.size) as size from heap_profile_allocation a "
        "join stack_profile_callsite c on c.id = a.callsite_id "
        "join stack_profile_frame f on f.id = c.frame_id group by f.name"
    )
    sizes = {row["name"]: row["size"] for row in rows}
    assert sum(sizes.values()) == device["peak"]["allocated_bytes"]
    assert sizes[f"main (train.py:{MARKED_LINE})"] == MARKED_BYTES
    roots = processor.rows(
        "select distinct f.name from stack_profile_callsite c "
        "join stack_profile_frame f on f.id = c.frame_id where c.parent_id is null"
    )
    assert "cpu:0 at the peak" in {row["name"] for row in roots}


def test_steps_and_phases_are_those_of_the_report(processor: TraceProcessor, folder: Path) -> None:
    processor.load(folder / "run.pftrace")
    (device,) = report(folder)["devices"]
    rows = processor.rows(
        "select t.name as track, s.name, s.dur from slice s join track t on t.id = s.track_id"
    )
    steps = [row["name"] for row in rows if row["track"] == "cpu:0 steps"]
    expected = [one["step"] for one in device["steps"] if one["step"] > 0]
    assert len(expected) >= 19
    assert steps == [f"step {number}" for number in expected]
    phases = {row["name"] for row in rows if row["track"] == "cpu:0 phases"}
    assert {"forward", "backward"} <= phases
    assert all(row["dur"] >= 0 for row in rows)


def test_a_kineto_trace_of_the_same_run_has_the_same_clock(
    processor: TraceProcessor, folder: Path
) -> None:
    processor.load(both(folder))
    ours = instants(processor)
    ours = ours[ours.bytes == MARKED_BYTES].ts.tolist()
    theirs = processor.rows(
        "select ts from slice where name = '[memory]' "
        f"and extract_arg(arg_set_id, 'args.Bytes') = {MARKED_BYTES} order by ts"
    )
    assert len(ours) == len(theirs) == 20
    apart = [abs(one - other["ts"]) for one, other in zip(ours, theirs)]
    # Both look at the clock in the same call of torch's allocator; a program that loses its
    # processor in between is not what is tested.
    assert statistics.median(apart) < SECONDS / 1000
    steps = processor.rows("select ts, dur from slice where name glob 'kineto step *' order by ts")
    inside = [step["ts"] <= at <= step["ts"] + step["dur"] for step, at in zip(steps, ours)]
    assert len(inside) == 20
    assert sum(inside) >= 19


OVERLAPPING = """
import time, torch
import gpumemprof
from gpumemprof import _core

with gpumemprof.record("overlapping.gmp", cpu=True):
    kept = [torch.ones(10)]
    _core.capture_mark("loading", True)
    kept.append(torch.ones(10))
    _core.capture_mark("saving", True)
    kept.append(torch.ones(10))
    time.sleep(0.01)
    _core.capture_mark("loading", False)
    kept.append(torch.ones(10))
    time.sleep(0.01)
    _core.capture_mark("saving", False)
    _core.capture_mark("never begun", False)
    kept.append(torch.ones(10))
"""


def test_phases_that_overlap_keep_their_names(processor: TraceProcessor, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(OVERLAPPING)
    for words in (
        ("program.py",),
        ("-m", "gpumemprof", "convert", "overlapping.gmp", "out", "--to", "perfetto"),
    ):
        subprocess.run([sys.executable, *words], cwd=tmp_path, capture_output=True, check=True)
    processor.load(tmp_path / "out")
    assert processor.problems() == {}
    rows = processor.rows(
        "select s.name, s.ts, s.dur from slice s join track t on t.id = s.track_id "
        "where t.name glob '* annotations' order by s.ts"
    )
    ends: dict[str, int] = {}
    for row in rows:
        assert row["dur"] >= 0
        ends[row["name"]] = max(ends.get(row["name"], 0), row["ts"] + row["dur"])
    names = [row["name"] for row in rows if row["name"] in ("loading", "saving")]
    assert names == ["loading", "saving", "saving"]  # the second in two parts
    assert "never begun" not in ends
    assert ends["loading"] < ends["saving"]
