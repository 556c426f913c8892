"""How many elements a mask selects that was narrowed at places nobody knows."""

from __future__ import annotations

import pytest
import torch
from torch.nn.utils import prune


def weights(*shape):
    """Numbers that nobody knows: those of a model."""
    return torch.nn.Parameter(torch.randn(*shape, device="cuda")).detach()


def narrowed(mask, part):
    """Zero where the smallest of some unknown values are."""
    places = torch.topk(weights(mask.numel()), int(part * mask.numel()), largest=False).indices
    mask.view(-1)[places] = 0
    return mask


def selected(mask):
    return weights(*mask.shape)[mask == 1].numel()


def test_a_mask_selects_what_was_not_removed(estimate):
    mask = narrowed(torch.ones(10_000, 1000, device="cuda"), 0.6)
    assert selected(mask) == 4_000_000
    assert weights(*mask.shape)[mask == 0].numel() == 6_000_000
    assert weights(*mask.shape)[mask.bool()].numel() == 4_000_000
    stated = [each.text for each in estimate.assumptions if each.kind == "shape"]
    assert "elements that are not zero: 4000000 of at most 10000000, as many as were marked" in (
        stated
    )


def test_a_mask_that_is_narrowed_again_is_within_the_first(estimate):
    first = narrowed(torch.ones(10_000_000, device="cuda"), 0.5)
    second = first.clone()
    kept = first == 1
    second[kept] = narrowed(first[kept].clone(), 0.9)
    assert selected(second) == 500_000
    assert selected(first) == 5_000_000
    assert selected(first * second) == 500_000
    independent = narrowed(torch.ones(10_000_000, device="cuda"), 0.6)
    assert selected(first * independent) == 2_000_000
    assert selected(torch.cat([first, independent])) == 9_000_000


def test_rows_that_keep_something_are_kept(estimate):
    mask = narrowed(torch.ones(5000, 1000, device="cuda"), 0.9)
    assert weights(5000, 8)[mask.sum(dim=1) != 0].shape == (5000, 8)


def test_a_mask_that_is_written_with_unknown_values_is_forgotten(estimate):
    mask = narrowed(torch.ones(10_000_000, device="cuda"), 0.5)
    mask.view(100, 100_000)[3].copy_(weights(100_000))
    assert selected(mask) == 10_000_000
    other = narrowed(torch.ones(10_000_000, device="cuda"), 0.5)
    other.add_(weights(10_000_000))
    assert selected(other) == 10_000_000


def test_repeated_pruning_removes_a_part_of_what_is_left(estimate):
    layers = [torch.nn.Linear(400, 300, device="cuda") for _ in range(2)]
    for _ in range(3):
        prune.global_unstructured(
            [(layer, "weight") for layer in layers], prune.L1Unstructured, amount=0.2
        )
    masks = torch.cat([layer.weight_mask.view(-1) for layer in layers])
    assert selected(masks) == pytest.approx(240_000 * 0.8**3, abs=2)
