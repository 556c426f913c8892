"""Sentences that contain a count read as a person would write them."""

from __future__ import annotations

from pathlib import Path

import gpumemprof
import pytest
from gpumemprof import _core
from gpumemprof.profile.text import counted, size, summary_text

TRACES = Path(__file__).resolve().parents[2] / "data" / "traces"


def test_bytes_read_as_in_the_table_of_all_languages() -> None:
    table = (TRACES.parent / "bytes.tsv").read_text().splitlines()
    assert len(table) >= 20
    for line in table:
        count, text = line.split("\t")
        assert _core.format_bytes(int(count)) == text
        assert size(int(count)) == text
    assert size(-1536) == "-1.50 KiB"


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 calls"), (1, "1 call"), (2, "2 calls"), (1203, "1,203 calls")]
)
def test_one_of_a_thing_is_singular(number: int, text: str) -> None:
    assert counted(number, "call") == text


def test_a_summary_of_one_call_says_one_call_of_one_function() -> None:
    summary = {
        "device": "cpu",
        "total_function_calls": 1,
        "total_functions_profiled": 1,
        "peak_memory_usage": 0,
        "current_memory_usage": 0,
        "memory_change_from_baseline": 0,
        "function_summaries": {},
    }
    assert summary_text(summary).startswith("cpu: 1 call of 1 function, peak 0 B")


def test_memory_without_a_pool_has_no_reserved_bytes() -> None:
    device = gpumemprof.load(TRACES / "cpu_training.gmp").devices[0]
    assert device.peak.reserved_bytes is None
    assert device.peak_reserved_bytes is None
    assert device.end.reserved_bytes is None
    assert device.end.allocated_bytes > 0


def test_the_peaks_step_is_that_of_the_table_of_steps() -> None:
    recording = gpumemprof.load(TRACES / "cpu_training.gmp")
    report = recording.report()["devices"][0]
    peak = report["peak"]
    largest = max(report["steps"], key=lambda step: step["peak_bytes"])
    assert peak["step"] == largest["step"] == recording.devices[0].peak.step == 5
    [phase] = [p for p in largest["phases"] if p["peak_event"] == peak["event_index"]]
    assert peak["phase"] == phase["phase"]
    assert peak["annotation"] is None


def test_the_first_line_counts_what_people_count() -> None:
    recording = gpumemprof.load(TRACES / "cpu_training.gmp")
    told = recording.report()["input"]
    assert (told["allocations"], told["frees"]) == (2291, 2214)
    assert told["events"] == told["allocations"] + 2 * told["frees"]
    assert recording.to_text().splitlines()[0] == (
        "cpu_training.gmp: recording, 2,291 allocations, 2,214 frees"
    )
