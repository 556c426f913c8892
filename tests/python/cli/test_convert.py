"""``gpumemprof convert``: what it writes is what torch would have written, and opens again."""

from __future__ import annotations

import gzip
import pickle
import pickletools
from pathlib import Path
from typing import Any

import gpumemprof
import pytest
from conftest import Command, snapshot_path

# What the unpickler on PyTorch's memory_viz page supports.
KNOWN_TO_MEMORY_VIZ = {
    *("PROTO", "FRAME", "STOP", "MARK", "MEMOIZE", "BINPUT", "LONG_BINPUT", "BINGET"),
    *("LONG_BINGET", "EMPTY_DICT", "SETITEM", "SETITEMS", "DICT", "EMPTY_LIST", "APPEND"),
    *("APPENDS", "LIST", "EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "NONE"),
    *("NEWTRUE", "NEWFALSE", "BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT"),
    *("SHORT_BINUNICODE", "BINUNICODE"),
}


def load_pickle(path: Path) -> dict[str, Any]:
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rb") as file:
        loaded: dict[str, Any] = pickle.load(file)
    return loaded


def events_of(snapshot: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """The traces of devices that have any; fields that only say there is nothing are left out."""
    nothing = {"compile_context": "N/A", "user_metadata": "", "frames": []}
    return [
        [
            {key: value for key, value in event.items() if nothing.get(key) != value}
            for event in trace
        ]
        for trace in snapshot["device_traces"]
        if trace
    ]


@pytest.fixture
def converted(command: Command, name: str, tmp_path: Path) -> Path:
    """The run as .gmp, and from that as a snapshot again."""
    trace = tmp_path / "run.gmp"
    snapshot = tmp_path / "run.pickle"
    to_trace = command("convert", snapshot_path(name), "--to", "gmp", trace)
    assert to_trace.returncode == 0, to_trace.stderr
    assert f"gpumemprof report {trace}" in to_trace.stdout
    back = command("convert", trace, "--to", "torch-snapshot", snapshot)
    assert back.returncode == 0, back.stderr
    return snapshot


def test_python_reads_what_torch_had_written(converted: Path, name: str) -> None:
    expected = load_pickle(snapshot_path(name))
    found = load_pickle(converted)
    assert found["segments"] == expected["segments"]
    assert found["external_annotations"] == expected["external_annotations"]
    assert found["allocator_settings"] == expected["allocator_settings"]
    assert events_of(found) == events_of(expected)


def test_memory_viz_knows_every_opcode(converted: Path) -> None:
    opcodes = {opcode.name for opcode, _, _ in pickletools.genops(converted.read_bytes())}
    assert opcodes <= KNOWN_TO_MEMORY_VIZ


def test_frames_and_stacks_are_shared(converted: Path) -> None:
    events = [event for trace in load_pickle(converted)["device_traces"] for event in trace]
    stacks = [event["frames"] for event in events if event.get("frames")]
    frames = [frame for stack in stacks for frame in stack]
    distinct_frames = {tuple(frame.items()) for frame in frames}
    distinct_stacks = {tuple(tuple(frame.items()) for frame in stack) for stack in stacks}
    assert len({id(frame) for frame in frames}) == len(distinct_frames)
    assert len({id(stack) for stack in stacks}) == len(distinct_stacks)


def test_reports_are_the_same(converted: Path, recording: gpumemprof.Recording) -> None:
    assert gpumemprof.load(converted).report()["devices"] == recording.report()["devices"]


def test_a_file_that_exists_is_replaced_only_when_told_to(command: Command, tmp_path: Path) -> None:
    source = snapshot_path("mlp_b64_fp32_adam")
    out = tmp_path / "out.gmp"
    out.write_text("precious")
    refused = command("convert", source, "--to", "gmp", out)
    assert refused.returncode == 2
    assert "the file already exists; choose another name, or use -f to replace it" in refused.stderr
    assert out.read_text() == "precious"
    assert command("convert", source, "--to", "gmp", out, "-f").returncode == 0
    assert out.read_bytes()[:4] == b"\x89GMP"
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize("target", ["gmp", "torch-snapshot", "folded"])
def test_what_cannot_be_written_is_told(command: Command, target: str, tmp_path: Path) -> None:
    source = snapshot_path("mlp_b64_fp32_adam")
    nowhere = command("convert", source, "--to", target, tmp_path / "no" / "folder")
    assert nowhere.returncode == 4
    assert "cannot be written (No such file or directory)" in nowhere.stderr
    full = command("convert", source, "--to", target, "/dev/full", "-f")
    assert full.returncode == 4
    assert "/dev/full: the disk is full" in full.stderr
    assert Path("/dev/full").is_char_device()


def test_folded_stacks_add_up_to_the_peak(command: Command, tmp_path: Path) -> None:
    source = snapshot_path("gpt2_b4_fp32_adamw")
    out = tmp_path / "run.folded"
    result = command("convert", source, "--to", "folded", out)
    assert result.returncode == 0, result.stderr
    assert "flamegraph.pl" in result.stdout
    assert "gpumemprof report" not in result.stdout
    lines = [line.rpartition(" ") for line in out.read_text().splitlines()]
    stacks = [stack for stack, _, _ in lines]
    assert len(stacks) == len(set(stacks)) > 10
    assert any(stack.count(";") > 3 for stack in stacks)
    peak = gpumemprof.load(source).devices[0].peak.allocated_bytes
    assert sum(int(number) for _, _, number in lines) == peak


def test_an_unknown_format_is_a_usage_error(command: Command, tmp_path: Path) -> None:
    result = command("convert", snapshot_path("mlp_b64_fp32_adam"), "--to", "xml", tmp_path / "x")
    assert result.returncode == 2
    formats = "torch-snapshot, gmp, folded, pprof, speedscope, perfetto, csv, parquet or arrow"
    assert f"--to takes {formats}, not 'xml'" in result.stderr


def test_a_cut_trace_is_converted_as_far_as_it_goes(command: Command, tmp_path: Path) -> None:
    trace = tmp_path / "whole.gmp"
    source = snapshot_path("gpt2_b4_fp32_adamw")
    assert command("convert", source, "--to", "gmp", trace).returncode == 0
    cut = tmp_path / "cut.gmp"
    cut.write_bytes(trace.read_bytes()[:-100])
    out = tmp_path / "out.pickle"
    result = command("convert", cut, "--to", "torch-snapshot", out)
    assert result.returncode == 3
    assert "the file ends inside a block" in result.stderr
    assert load_pickle(out)["device_traces"][0]


def test_a_recording_of_cpu_tensors_reads_the_same_as_a_snapshot(
    command: Command, tmp_path: Path
) -> None:
    torch = pytest.importorskip("torch")
    trace = tmp_path / "run.gmp"
    with gpumemprof.record(trace, cpu=True):
        kept = [torch.empty(size) for size in (1, 77, 1000, 33333)]
        for size in range(1, 2000, 77):
            torch.empty(size)
    snapshot = tmp_path / "run.pickle"
    assert command("convert", trace, "--to", "torch-snapshot", snapshot).returncode == 0
    before, after = (gpumemprof.load(path).devices[0] for path in (trace, snapshot))
    assert after.device == "cpu:0"
    assert after.peak.allocated_bytes == before.peak.allocated_bytes
    assert after.end is not None
    assert after.end.allocated_bytes == sum(each.untyped_storage().nbytes() for each in kept)
