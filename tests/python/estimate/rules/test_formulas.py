"""Formulas of the rules, where a wrong figure would not show in the recorded calls."""

from __future__ import annotations

import pytest
import torch
from gpumemprof.estimate.rules.attention.memory import flash_splits
from gpumemprof.estimate.rules.cub import radix_sort_bytes
from gpumemprof.estimate.rules.matmul import OLDER_WORKSPACE_BYTES, configured_bytes
from gpumemprof.estimate.rules.norms import cudnn_norm_bytes
from gpumemprof.estimate.rules.reductions.launch import reduction_memory


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


@pytest.mark.parametrize(
    ("shape", "forward", "backward"),
    [
        ((4, 64, 320, 479), 1_978_388, 3_271_204),
        ((4, 128, 160, 239), 987_672, 1_633_320),
        ((4, 256, 40, 59), 122_864, 203_824),
        ((4, 512, 20, 29), 63_024, 103_488),
    ],
)
def test_the_workspace_of_a_normalization_is_as_an_h200_recorded_it(
    shape: tuple[int, ...], forward: int, backward: int
) -> None:
    images = torch.empty(shape, dtype=torch.float16, device="meta")
    last = images.to(memory_format=torch.channels_last)
    assert cudnn_norm_bytes(last, is_forward=True) == forward
    assert cudnn_norm_bytes(last, is_forward=False) == backward
    assert cudnn_norm_bytes(images, is_forward=True) == 0
    assert cudnn_norm_bytes(last.float(), is_forward=True) == 0
