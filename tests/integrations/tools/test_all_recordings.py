"""Every recording of the test data in every format: its own reader finds the report's figures."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pandas
import pyarrow.feather
import pyarrow.parquet
import pytest
from doc_pages import ROOT
from gpumemprof.__main__ import main
from perfetto_sql import TraceProcessor

DATA = ROOT / "tests" / "data"
RECORDINGS = sorted(
    str(path.relative_to(DATA))
    for path in DATA.rglob("*")
    if path.suffix in {".gmp", ".gz", ".pickle", ".prof"}
)


def called(*words: object) -> tuple[int, str]:
    """The exit code and standard output of a command, run in this process.

    A process for each would take longer than all else. The native part writes to the descriptor.
    """
    with tempfile.TemporaryFile() as out, Path(os.devnull).open("w") as nothing:
        sys.stdout.flush()
        before = os.dup(1), os.dup(2)
        try:
            os.dup2(out.fileno(), 1)
            os.dup2(nothing.fileno(), 2)
            try:
                code = main([str(word) for word in words])
            except SystemExit as end:
                code = int(end.code or 0)
            sys.stdout.flush()
        finally:
            for number, kept in enumerate(before, start=1):
                os.dup2(kept, number)
                os.close(kept)
        out.seek(0)
        return code, out.read().decode()


class Converted:
    """A recording, its report, and the folder of its conversions."""

    def __init__(self, name: str, folder: Path) -> None:
        self.path = DATA / name
        self.folder = folder
        self.devices: list[dict[str, Any]] = report_of(name)["devices"]

    def to(self, kind: str, *flags: str) -> Path:
        out = self.folder / "-".join([kind, *flags])
        code, _ = called("convert", self.path, out, "--to", kind, *flags)
        assert out.exists(), (kind, flags, code)
        return out


@cache
def report_of(name: str) -> dict[str, Any]:
    _, text = called("report", DATA / name, "--json")
    loaded: dict[str, Any] = json.loads(text) if text.startswith("{") else {}
    return loaded if "devices" in loaded else {}


@pytest.fixture(params=RECORDINGS)
def converted(request: pytest.FixtureRequest, tmp_path: Path) -> Converted:
    if not report_of(request.param):
        pytest.skip("no recording")
    return Converted(request.param, tmp_path)


@pytest.fixture(scope="module")
def processor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TraceProcessor]:
    with TraceProcessor(tmp_path_factory.mktemp("processor")) as started:
        yield started


def test_all_but_one_of_the_files_are_recordings() -> None:
    assert len(RECORDINGS) >= 60
    others = [name for name in RECORDINGS if not report_of(name)]
    assert others == ["foreign/kineto_without_memory.json.gz"]


def in_use(device: dict[str, Any], moment: str) -> int:
    """The report's bytes; without a history, the peak is unknown and exports show the end."""
    found = device[moment]["allocated_bytes"]
    return int(device["end"]["allocated_bytes"] if found is None else found)


def by_device(rows: list[tuple[str, int]]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for device, count in rows:
        sums[device] = sums.get(device, 0) + count
    return sums


def pprof_bytes(profile: Path) -> dict[str, int]:
    """The bytes in use of each device, as pprof reads them."""
    words = ["go", "tool", "pprof", "-raw", str(profile)]
    raw = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    samples = raw.partition("Samples:")[2].partition("Locations")[0]
    found = re.findall(
        r"^ +(?:-?\d+ +){3}(-?\d+): .*\n(?:.*\n)*? +device:\[([^]]+)\]", samples, re.MULTILINE
    )
    return by_device([(device, int(count)) for count, device in found])


def test_pprof(converted: Converted) -> None:
    for moment in ("peak", "end"):
        found = pprof_bytes(converted.to("pprof", "--at", moment))
        for device in converted.devices:
            assert found.get(device["device"], 0) == in_use(device, moment), moment


def test_speedscope(converted: Converted) -> None:
    file = json.loads(converted.to("speedscope").read_text())
    totals = {profile["name"]: sum(profile["weights"]) for profile in file["profiles"]}
    for device in converted.devices:
        name = device["device"]
        for moment in ("peak", "end"):
            if device[moment]["allocated_bytes"] is not None:
                found = totals.get(f"{name}: in use at the {moment}", 0)
                assert found == in_use(device, moment), moment


def test_folded(converted: Converted) -> None:
    lines = converted.to("folded").read_text().splitlines()
    most = max((in_use(one, "peak") for one in converted.devices), default=0)
    assert sum(int(line.rpartition(" ")[2]) for line in lines) == most


def read_table(folder: Path, name: str, suffix: str) -> pandas.DataFrame:
    path = folder / f"{name}.{suffix}"
    if suffix == "parquet":
        return pyarrow.parquet.read_table(path).to_pandas()
    if suffix == "arrow":
        return pyarrow.feather.read_table(path).to_pandas()
    return pandas.read_csv(path)


def live_at(table: pandas.DataFrame, event: int) -> int:
    born = table["alloc_event"].isna() | (table["alloc_event"] <= event)
    freed = table["free_requested_event"].notna() & (table["free_requested_event"] <= event)
    return int(table[born & ~freed]["size_bytes"].sum())


@pytest.mark.parametrize("suffix", ["csv", "parquet", "arrow"])
def test_tables(converted: Converted, suffix: str) -> None:
    folder = converted.to(suffix)
    events, allocations, sources, segments = (
        read_table(folder, name, suffix)
        for name in ("events", "allocations", "sources", "segments")
    )
    for device in converted.devices:
        name, peak = device["device"], in_use(device, "peak")
        assert (events["device"] == name).sum() == device["events"]
        own = allocations[allocations["device"] == name]
        event = device["peak"]["event_index"]
        assert live_at(own, device["events"] if event is None else event) == peak
        rows = sources[sources["device"] == name].set_index("source")
        for source, figure in device["sources"].items():
            assert rows.loc[source, "bytes_at_peak"] == figure["bytes_at_peak"], source
            assert rows.loc[source, "bytes_max"] == figure["bytes_max"], source
        assert rows["bytes_at_peak"].sum() == peak
        held = segments[(segments["device"] == name) & segments["death_event"].isna()]
        assert held["size_bytes"].sum() == (device["end"]["reserved_bytes"] or 0)


def test_perfetto(converted: Converted, processor: TraceProcessor) -> None:
    code, _ = called("convert", converted.path, converted.folder / "trace", "--to", "perfetto")
    if not (converted.folder / "trace").exists():
        assert code == 3  # Its events have no times.
        pytest.skip("no times")
    processor.load(converted.folder / "trace")
    assert processor.problems() == {}
    rows = processor.rows(
        "select name, max(cast(value as int)) as most, count(*) as count, "
        "(select cast(value as int) from counter where track_id = t.id order by ts desc, id desc "
        "limit 1) as last from counter c join track t on t.id = c.track_id group by t.id"
    )
    counters = {row["name"]: row for row in rows}
    heaps = processor.rows(
        "select heap_name, sum(size) as size from heap_profile_allocation group by heap_name"
    )
    sizes = {row["heap_name"]: row["size"] for row in heaps}
    for device in converted.devices:
        name, peak = device["device"], device["peak"]["allocated_bytes"]
        assert counters[f"{name} allocated"]["most"] == peak
        assert counters[f"{name} allocated"]["last"] == device["end"]["allocated_bytes"]
        if device["peak_reserved_bytes"]:
            assert counters[f"{name} reserved"]["most"] == device["peak_reserved_bytes"]
        for source, figure in device["sources"].items():
            assert counters[f"{name} {source}"]["most"] == figure["bytes_max"], source
        assert sizes.get(f"{name} at the peak", 0) == peak
