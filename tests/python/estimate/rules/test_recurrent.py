"""The sizes of cuDNN's memory for recurrent networks are those that cuDNN answers on an H200."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from gpumemprof.estimate.rules.sequences.cudnn_recurrent import Network, algorithm

from replay import DTYPES, Replay

DATA = Path(__file__).parents[3] / "data" / "estimate" / "recurrent_sizes.json"
H200 = (9, 0)
LSTM, GRU, RELU = 2, 3, 0
BASE = Network(LSTM, torch.float16, 256, 512, 0, 1, 1, False, False, 50, 64, 3200)


def network(row: list[Any]) -> Network:
    mode, dtype, inputs, hidden, projected, layers, directions, packed, dropout, *steps = row
    shape = (inputs, hidden, projected, layers, directions)
    return Network(mode, DTYPES[dtype], *shape, bool(packed), bool(dropout), *steps)


def test_workspaces_and_reserve_spaces_are_cudnns() -> None:
    networks = json.loads(DATA.read_text())["networks"]
    wrong = []
    for kind, *row, sizes in networks:
        each = network(row)
        found = [
            each.workspace_bytes(kind, True, H200),
            each.reserve_bytes(),
            each.workspace_bytes(kind, False, H200),
        ]
        if found != sizes:
            wrong.append((kind, each, found, sizes))
    assert len(networks) > 500
    assert wrong == []


@pytest.mark.parametrize(
    ("changed", "is_forward", "kind"),
    [
        ({}, True, "static"),
        ({"mode": GRU}, True, "standard"),
        ({"sequences": 60}, True, "standard"),
        ({"layers": 2}, True, "standard"),
        ({"dtype": torch.bfloat16}, True, "standard"),
        ({"hidden": 192}, True, "small"),
        ({"hidden": 192}, False, "standard"),
        ({"hidden": 192, "is_packed": True}, True, "standard"),
        ({"hidden": 192, "dtype": torch.float64}, True, "standard"),
        ({"hidden": 384, "mode": RELU}, True, "small"),
        ({"hidden": 192, "projected": 64}, True, "standard"),
    ],
)
def test_torch_chooses_the_algorithm_by_shape(
    changed: dict[str, Any], is_forward: bool, kind: str
) -> None:
    assert algorithm(replace(BASE, **changed), is_forward, H200, 132) == kind


def test_a_network_without_biases_has_gradients_of_its_own() -> None:
    """cuDNN's buffer of gradients has biases, so torch copies the matrices out of it."""
    replay = Replay()
    weights = ["f32[64,8]", "f32[64,16]"]
    result, state, options = "f32[5,3,16]", "f32[1,3,16]", [LSTM, 16, 0, 1, False, 0.0, True, False]
    args = ["f32[5,3,8]", weights, 2, "f32[1664]", state, state, result, result, None, None]
    args += [*options, [], None, "u8[1]", [True, True, True, True]]
    outputs = ["f32[5,3,8]", state, state, weights]
    events = replay.events("aten._cudnn_rnn_backward.default", args, {}, outputs)
    buffer_bytes = (64 * 8 + 64 * 16 + 2 * 64) * 4
    assert buffer_bytes in events
    assert events[-4:-2] == [-8, -7]  # the workspace, then the buffer
    assert {64 * 8 * 4, 64 * 16 * 4} <= set(events)
