"""The rules allocate what the kernels of an H200 allocated, call by call and in their order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from replay import Replay

DATA = Path(__file__).parents[3] / "data" / "estimate"
FILES = sorted(path.stem for path in DATA.glob("calls_*.json"))
# Blocks that a process allocates once; the recordings were made after that.
ALLOCATED_ONCE = {32 << 20, 1 << 20}


def without_workspaces(events: list[int]) -> list[int]:
    """The events without the blocks of cuBLAS, which are allocated at its first call only."""
    numbers: dict[int, int] = {}
    kept = []
    count = 0
    for event in events:
        if event < 0:
            kept.append(-1 - numbers[-event - 1])
            continue
        if event not in ALLOCATED_ONCE:
            numbers[count] = len(numbers)
            kept.append(event)
        count += 1
    return kept


@pytest.fixture(scope="module")
def replay() -> Replay:
    return Replay()


@pytest.mark.parametrize("name", FILES)
def test_a_recorded_call_allocates_the_same_blocks(name: str, replay: Replay) -> None:
    calls: list[Any] = json.loads((DATA / f"{name}.json").read_text())["calls"]
    wrong = []
    for operation, args, kwargs, events, results in calls:
        found = without_workspaces(replay.events(operation, args, kwargs, results))
        if found != without_workspaces(events):
            wrong.append(f"{operation} {args} {kwargs}: {found}, not {events}")
    assert not wrong, f"{len(wrong)} of {len(calls)}:\n" + "\n".join(wrong[:5])
