"""Exports, read back by their own tools: Go's pprof, Perfetto's protos, speedscope's schema."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import gpumemprof
import pytest
from doc_pages import ROOT, run_page

PAGE = ROOT / "docs" / "integrations" / "profiles.md"
SNAPSHOTS = ROOT / "tests" / "data" / "snapshots"
NAMES = ("mlp_b64_fp32_adam.pickle.gz", "demo")


def convert(source: str, out: Path, *flags: str, window: int | None = None) -> None:
    environment = dict(os.environ)
    if window is not None:
        environment["GPUMEMPROF_WINDOW_EVENTS"] = str(window)
    words = [sys.executable, "-m", "gpumemprof", "convert", source, str(out), *flags]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module", params=["snapshot", "demo", "in windows"])
def run(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, int | None]:
    """A recording, and how many events are read at once; None: all."""
    if request.param == "demo":
        return str(gpumemprof.demo_path()), None
    snapshot = str(SNAPSHOTS / "mlp_b64_fp32_adam.pickle.gz")
    if request.param == "snapshot":
        return snapshot, None
    folder = tmp_path_factory.mktemp("cpu")
    script = folder / "train.py"
    script.write_text(
        "import torch\n"
        "model = torch.nn.Linear(64, 64)\n"
        "optimizer = torch.optim.Adam(model.parameters())\n"
        "for _ in range(200):\n"
        "    model(torch.randn(32, 64)).sum().backward()\n"
        "    optimizer.step()\n"
        "    optimizer.zero_grad()\n"
    )
    out = folder / "run.gmp"
    words = [sys.executable, "-m", "gpumemprof", "run", "--cpu", "-o", str(out), str(script)]
    subprocess.run(words, check=True, capture_output=True)
    return str(out), 500


def report(source: str) -> dict[str, Any]:
    words = [sys.executable, "-m", "gpumemprof", "report", source, "--json"]
    text = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def pprof_total(profile: Path, index: str, *flags: str) -> int:
    words = [
        "go",
        "tool",
        "pprof",
        "-top",
        "-unit=B",
        f"-sample_index={index}",
        *flags,
        str(profile),
    ]
    text = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    found = re.search(r"of (-?\d+)(?:B)? total", text)
    assert found, text
    return int(found[1])


def test_the_page(tmp_path: Path) -> None:
    assert run_page(PAGE, tmp_path) >= 6


def test_pprof_reads_the_peak(run: tuple[str, int | None], tmp_path: Path) -> None:
    source, window = run
    profile = tmp_path / "peak.pb.gz"
    convert(source, profile, "--to", "pprof", window=window)
    devices = report(source)["devices"]
    assert pprof_total(profile, "inuse_space") == sum(
        one["peak"]["allocated_bytes"] for one in devices
    )
    end = tmp_path / "end.pb.gz"
    convert(source, end, "--to", "pprof", "--at", "end", window=window)
    last = sum(one["end"]["allocated_bytes"] for one in devices)
    if last:
        assert pprof_total(end, "inuse_space") == last
    made = sum(one["counters"]["allocations"] for one in devices)
    assert pprof_total(end, "alloc_objects") >= made > 0
    words = ["go", "tool", "pprof", "-raw", "-diff_base", str(profile), str(profile)]
    raw = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    values = re.findall(r"^ +(-?\d+) +(-?\d+) +(-?\d+) +(-?\d+):", raw, re.MULTILINE)
    assert [sum(map(int, column)) for column in zip(*values)] in ([0] * 4, [])


def test_pprof_shows_names_as_python_writes_them(tmp_path: Path) -> None:
    profile = tmp_path / "peak.pb.gz"
    convert(gpumemprof.demo_path(), profile, "--to", "pprof")
    words = ["go", "tool", "pprof", "-peek", "step$", str(profile)]
    text = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    assert "<module>" in text
    assert "<lambda>" in text


def test_speedscope_reads_the_peak(run: tuple[str, int | None], tmp_path: Path) -> None:
    import jsonschema

    source, window = run
    out = tmp_path / "run.speedscope.json"
    convert(source, out, "--to", "speedscope", window=window)
    file = json.loads(out.read_text())
    subprocess.run(["npm", "pack", "speedscope@1.25.0", "--silent"], cwd=tmp_path, check=True)
    with tarfile.open(next(tmp_path.glob("speedscope-*.tgz"))) as package:
        member = next(m for m in package.getmembers() if m.name.endswith("file-format-schema.json"))
        schema = package.extractfile(member)
        assert schema is not None
        jsonschema.validate(file, json.load(schema))
    totals = {profile["name"]: sum(profile["weights"]) for profile in file["profiles"]}
    for device in report(source)["devices"]:
        name = device["device"]
        assert totals[f"{name}: in use at the peak"] == device["peak"]["allocated_bytes"]
        assert totals[f"{name}: in use at the end"] == device["end"]["allocated_bytes"]
    for profile in file["profiles"]:
        assert len(profile["samples"]) == len(profile["weights"])
        assert profile["endValue"] == sum(profile["weights"])


class Trace:
    """What a trace says, by its tracks' names."""

    def __init__(self, path: Path) -> None:
        from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos

        self.trace = protos.Trace()
        self.trace.ParseFromString(path.read_bytes())
        self.protos = protos
        self.tracks = {
            packet.track_descriptor.uuid: packet.track_descriptor
            for packet in self.trace.packet
            if packet.HasField("track_descriptor")
        }
        self.counters: dict[str, list[tuple[int, int]]] = {}
        self.slices: dict[str, list[int]] = {}
        self.instants: dict[str, int] = {}
        self.texts: dict[int, bytes] = {}
        self.note_names: dict[int, str] = {}
        self.stacks: list[str] = []
        self.bytes = 0
        self.heaps: dict[str, int] = {}
        for packet in self.trace.packet:
            self._read(packet)

    def _read(self, packet: Any) -> None:
        for text in packet.interned_data.debug_annotation_string_values:
            self.texts[text.iid] = text.str
        self.note_names.update(
            (name.iid, name.name) for name in packet.interned_data.debug_annotation_names
        )
        for dump in packet.profile_packet.process_dumps:
            self.heaps[dump.heap_name] = sum(
                one.self_allocated - one.self_freed for one in dump.samples
            )
        if not packet.HasField("track_event"):
            return
        event = packet.track_event
        kinds = self.protos.TrackEvent
        name = self.tracks[event.track_uuid].name
        if event.type == kinds.TYPE_COUNTER:
            self._count(name, packet.timestamp, event.counter_value)
        elif event.type == kinds.TYPE_INSTANT:
            self.instants[name] = self.instants.get(name, 0) + 1
            for note in event.debug_annotations:
                if self.note_names[note.name_iid] == "stack":
                    self.stacks.append(self.texts[note.string_value_iid].decode())
        else:
            self.slices.setdefault(name, []).append(
                1 if event.type == kinds.TYPE_SLICE_BEGIN else -1
            )
        for track, value in zip(event.extra_counter_track_uuids, event.extra_counter_values):
            self._count(self.tracks[track].name, packet.timestamp, value)

    def _count(self, name: str, time: int, value: int) -> None:
        self.counters.setdefault(name, []).append((time, value))


def test_perfetto_reads_the_peak(run: tuple[str, int | None], tmp_path: Path) -> None:
    source, window = run
    out = tmp_path / "run.pftrace"
    convert(source, out, "--to", "perfetto", window=window)
    trace = Trace(out)
    for device in report(source)["devices"]:
        name, peak = device["device"], device["peak"]
        allocated = trace.counters[f"{name} allocated"]
        assert max(value for _, value in allocated) == peak["allocated_bytes"]
        assert allocated[-1][1] == device["end"]["allocated_bytes"]
        if device["peak_reserved_bytes"]:
            reserved = trace.counters[f"{name} reserved"]
            assert max(value for _, value in reserved) == device["peak_reserved_bytes"]
        for source_name, figure in device["sources"].items():
            values = [value for _, value in trace.counters[f"{name} {source_name}"]]
            assert max(values) == figure["bytes_max"], source_name
        assert trace.heaps[f"{name} at the peak"] == peak["allocated_bytes"]
        assert trace.instants[f"{name} allocations"] >= device["counters"]["allocations"]
        for kind in ("steps", "phases"):
            changes = trace.slices.get(f"{name} {kind}", [])
            assert sum(changes) == 0
    assert trace.stacks
    assert all(trace.stacks)
    times = [packet.timestamp for packet in trace.trace.packet if packet.timestamp]
    assert times


def test_a_trace_has_the_clock_of_torchs_own(tmp_path: Path) -> None:
    """The same allocation at the same time in both, up to what the recorder's clock differs."""
    script = tmp_path / "train.py"
    script.write_text(
        "import torch\n"
        "from torch.profiler import ProfilerActivity, profile\n"
        "with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:\n"
        "    for _ in range(3):\n"
        "        torch.ones(3_000_017)\n"
        "profiled.export_chrome_trace('trace.json')\n"
    )
    words = [sys.executable, "-m", "gpumemprof", "run", "--cpu", "-o", "run.gmp", str(script)]
    subprocess.run(words, cwd=tmp_path, check=True, capture_output=True)
    convert(
        str(tmp_path / "run.gmp"),
        tmp_path / "run.pftrace",
        *("--to", "perfetto", "--clock-of", str(tmp_path / "trace.json")),
    )
    size = 4 * 3_000_017
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    theirs = [
        float(event["ts"]) * 1000
        for event in events
        if event.get("name") == "[memory]" and event["args"].get("Bytes") == size
    ]
    trace = Trace(tmp_path / "run.pftrace")
    ours = []
    for packet in trace.trace.packet:
        notes = packet.track_event.debug_annotations
        if any(note.uint_value == size for note in notes):
            ours.append(packet.timestamp)
    assert len(theirs) == len(ours) == 3
    # One of three may have lost its processor between the two looks at the clock.
    assert sorted(abs(a - b) for a, b in zip(theirs, ours))[1] < 1_000_000
