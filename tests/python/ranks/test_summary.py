"""The summary of a recording: its columns equal a count over the table of allocations."""

from __future__ import annotations

import json
import os
from itertools import accumulate
from pathlib import Path
from typing import Any

import gpumemprof
import pytest
from gpumemprof import _core

DATA = Path(__file__).parents[2] / "data"
TRAINING = DATA / "traces/cpu_training.gmp"
SNAPSHOTS = ["leak_loss_history", "gpt2_b32_fp32_adamw_oom"]


def summary_of(path: Path) -> tuple[dict[str, Any], dict[str, list[int]]]:
    """The head, and the columns of the first device."""
    head, *rest = _core.rank_summary(os.fsencode(path)).splitlines()
    rows = [json.loads(line) for line in rest]
    columns = {
        row["column"]: list(accumulate(row["differences"]))
        for row in rows
        if row["device"] == 0 and "column" in row
    }
    return json.loads(head), columns


def counted(path: Path) -> dict[str, list[int]]:
    """The same columns, from the table of allocations."""
    recording = gpumemprof.load(path)
    steps = recording.report()["devices"][0]["steps"]
    rows = recording.allocations.to_pandas().to_dict("records")
    changes: dict[int, list[tuple[str, int, int]]] = {}
    live, by_source = 0, dict.fromkeys({row["source"] for row in rows}, 0)
    for row in rows:
        if row["device"] != rows[0]["device"]:
            continue
        requested = min(row["requested_bytes"], row["size_bytes"])
        born, died = row["alloc_event"], row["free_requested_event"]
        if born == born and born is not None:
            changes.setdefault(int(born), []).append((row["source"], row["size_bytes"], requested))
        else:
            live += row["size_bytes"]
            by_source[row["source"]] += requested
        if died == died and died is not None:
            entry = (row["source"], -row["size_bytes"], -requested)
            changes.setdefault(int(died), []).append(entry)
    found: dict[str, list[int]] = {"step": [], "peak_bytes": [], "floor_bytes": []}
    for step in steps:
        totals, most = [], dict.fromkeys(by_source, 0)
        for event in range(step["first_event"], step["last_event"] + 1):
            for source, size, requested in changes.get(event, []):
                live += size
                by_source[source] += requested
            totals.append(live)
            most = {source: max(most[source], by_source[source]) for source in most}
        found["step"].append(step["step"])
        found["peak_bytes"].append(max(totals))
        found["floor_bytes"].append(min(totals))
        for source, value in most.items():
            found.setdefault(f"most {source}", []).append(value)
    return {name: values for name, values in found.items() if name == "step" or any(values)}


@pytest.mark.parametrize("window", [None, "100"])
def test_columns_equal_a_count_of_allocations(
    monkeypatch: pytest.MonkeyPatch, window: str | None
) -> None:
    if window is not None:
        monkeypatch.setenv("GPUMEMPROF_WINDOW_EVENTS", window)
    _, columns = summary_of(TRAINING)
    assert columns == counted(TRAINING)


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_columns_of_a_gpu_equal_a_count_of_allocations(name: str) -> None:
    path = DATA / f"snapshots/{name}.pickle.gz"
    head, columns = summary_of(path)
    expected = counted(path)
    assert {key: columns[key] for key in expected} == expected
    assert max(columns["reserved_bytes"]) == head["devices"][0]["reserved_bytes"]


def test_a_failed_allocation_is_in_the_summary() -> None:
    head, _ = summary_of(DATA / "snapshots/gpt2_b32_fp32_adamw_oom.pickle.gz")
    (first, *_) = head["devices"][0]["oom_reports"]
    assert first["wanted_bytes"] > 0
    assert first["line"]


def test_a_step_takes_at_most_a_kilobyte() -> None:
    text = _core.rank_summary(os.fsencode(TRAINING))
    rows = [line for line in text.splitlines() if b'"differences"' in line]
    steps = len(json.loads(rows[0])["differences"])
    assert sum(map(len, rows)) / steps < 1024


def test_a_recording_without_events_has_no_devices() -> None:
    head, columns = summary_of(DATA / "traces/empty.gmp")
    assert (head["devices"], columns) == ([], {})
