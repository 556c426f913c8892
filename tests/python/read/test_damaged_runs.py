"""Runs that are partly missing or damaged: every command reads or refuses them, none crashes."""

from __future__ import annotations

import gzip
import pickle
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Command, snapshot_path

Snapshot = dict[str, Any]
Damage = Callable[[list[dict[str, Any]]], list[dict[str, Any]]]


def without_some_frames(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    chance = random.Random(7)
    return [event | {"frames": []} if chance.random() < 0.01 else event for event in events]


def without_late_frames(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    half = len(events) // 2
    return events[:half] + [event | {"frames": []} for event in events[half:]]


def without_the_middle(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    middle = len(events) // 2
    return events[: middle - 200] + events[middle + 200 :]


VERBS = (
    ("report",),
    ("report", "--json", "--steps", "--modules"),
    ("advise",),
    ("advise", "--fit", "1GiB"),
)


def try_verbs(command: Command, path: Path) -> None:
    for verb, *flags in VERBS:
        ended = command(verb, path, *flags)
        assert ended.returncode in (0, 1, 2, 3), (verb, flags, ended.returncode, ended.stderr)


@pytest.mark.parametrize("damage", [without_some_frames, without_late_frames, without_the_middle])
@pytest.mark.parametrize("name", ["clean_training", "mlp_b64_fp32_adam", "gpt2_b4_fp32_adamw"])
def test_a_run_with_a_part_missing_is_read_by_every_verb(
    tmp_path: Path, command: Command, name: str, damage: Damage
) -> None:
    snapshot: Snapshot = pickle.loads(gzip.decompress(snapshot_path(name).read_bytes()))
    snapshot["device_traces"] = [damage(events) for events in snapshot["device_traces"]]
    path = tmp_path / "damaged.pickle"
    path.write_bytes(pickle.dumps(snapshot))
    try_verbs(command, path)


def test_a_step_without_a_forward_gets_advice(tmp_path: Path, command: Command) -> None:
    """One flipped bit in a name produces a backward without a forward before it."""
    content = bytearray(gzip.decompress(snapshot_path("clean_training").read_bytes()))
    content[391684] ^= 1
    path = tmp_path / "flipped.pickle"
    path.write_bytes(content)
    try_verbs(command, path)
