"""Formulas of the rules, where a wrong figure would not show in the recorded calls."""

from __future__ import annotations

import pytest
import torch
from gpumemprof.estimate.rules.attention.memory import flash_splits
from gpumemprof.estimate.rules.convolution.workspace import Convolution, workspace_bytes
from gpumemprof.estimate.rules.cub import radix_sort_bytes
from gpumemprof.estimate.rules.matmul import OLDER_WORKSPACE_BYTES, configured_bytes
from gpumemprof.estimate.rules.reductions.launch import reduction_memory

from replay import LoggedMemory, Replay


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", None), (":4096:8", 32 << 20), (":16:8", 128 << 10), (":4096:2:16:8", 8320 << 10)],
)
def test_the_configured_cublas_workspace(text: str, expected: int | None) -> None:
    assert configured_bytes(text) == expected


def test_the_default_workspace_of_older_cards_is_that_of_their_configuration() -> None:
    assert configured_bytes(":4096:2:16:8") == OLDER_WORKSPACE_BYTES


def test_a_large_sum_is_split_among_blocks_and_a_small_one_is_not() -> None:
    large = reduction_memory(torch.empty(512, 1000, device="meta"), None, 132)
    assert large.sizes() == (252, 4)
    assert reduction_memory(torch.empty(64, 10, device="meta"), None, 132).sizes() == (0, 0)


def test_a_sort_of_few_digits_needs_fewer_counts() -> None:
    full = radix_sort_bytes(8192, 8, 8)
    assert full == 150_015
    assert full - radix_sort_bytes(8192, 8, 8, key_bits=12) == 6 * 2048


def test_the_keys_are_split_only_where_queries_do_not_fill_the_card() -> None:
    assert flash_splits(work=128, places=264, key_blocks=4) == 2
    assert flash_splits(work=264, places=264, key_blocks=4) == 1


def a_convolution(batch: int, channels: int) -> Convolution:
    return Convolution(
        batch=batch,
        channels=channels,
        outputs=64,
        groups=1,
        kernel=(3, 3),
        stride=(1, 1),
        padding=(1, 1),
        dilation=(1, 1),
        image=(56, 56),
        is_transposed=False,
        dtype=torch.float32,
        is_channels_last=False,
    )


def test_a_convolution_in_the_table_is_measured() -> None:
    size, is_measured = workspace_bytes(a_convolution(32, 64), "forward")
    assert is_measured
    assert size > 0


def test_another_batch_is_derived_from_the_nearest_one() -> None:
    known, _ = workspace_bytes(a_convolution(32, 64), "forward")
    size, is_measured = workspace_bytes(a_convolution(33, 64), "forward")
    assert not is_measured
    assert 1.02 < size / known < 1.04


def test_a_shape_that_was_not_measured_is_derived_from_one_like_it() -> None:
    size, is_measured = workspace_bytes(a_convolution(32, 72), "weight")
    copies = 32 * (72 + 64) * 56 * 56 * 4
    assert not is_measured
    assert copies <= size < 1.5 * copies


def test_another_card_is_told_where_its_figures_come_from() -> None:
    replay = Replay()
    device = replay.device(LoggedMemory(), capability=(8, 0))
    args = ["f32[8,64,56,56]", "f32[64,64,3,3]", None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1]
    replay.run_on(device, "aten.convolution.default", args, {}, "f32[8,64,56,56]")
    assert any("H200" in each.text for each in device.assumptions)


def test_a_search_for_the_fastest_convolution_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", True)
    replay = Replay()
    memory = LoggedMemory()
    device = replay.device(memory)
    args = ["f32[8,64,56,56]", "f32[64,64,3,3]", None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1]
    counts = []
    for _ in range(2):
        before = memory.count
        replay.run_on(device, "aten.convolution.default", args, {}, "f32[8,64,56,56]")
        counts.append(memory.count - before)
    assert counts == [3, 2]
    assert any("cudnn.benchmark" in each.text for each in device.assumptions)
