"""Boxes are followed by their values, so that a detector has as many of them as on a GPU."""

from __future__ import annotations

from types import ModuleType

import pytest
import torch
from gpumemprof.estimate.engine.value_limits import values_decide
from gpumemprof.estimate.engine.values import is_assumed, known_value
from gpumemprof.estimate.patches.detectors import torchvision as detectors
from gpumemprof.estimate.patches.patcher import Patcher

ANCHORS = 9000


def anchors() -> torch.Tensor:
    corners = torch.arange(ANCHORS, device="cuda", dtype=torch.float32)[:, None]
    return torch.cat([corners, corners, corners + 16, corners + 16], 1)


def test_large_tensors_are_known_where_values_decide(estimate):
    with values_decide():
        matches = (anchors()[:, 0] < 40).nonzero()
    assert matches.shape == (40, 1)
    assert not list(estimate.assumptions)


def test_large_tensors_are_not_known_elsewhere(estimate):
    assert known_value(anchors()) is None


def a_module() -> ModuleType:
    """As torchvision's, with a network that keeps the boxes of the best scores."""

    class RegionProposalNetwork:
        def forward(self, scores: torch.Tensor) -> torch.Tensor:
            return self.filter_proposals(anchors().view(2, -1, 4), scores)

        def filter_proposals(self, boxes: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
            best = scores.view(2, -1).topk(50)[1]
            return boxes[0][best[0]]

    module = ModuleType("rpn")
    module.RegionProposalNetwork = RegionProposalNetwork
    return module


@pytest.fixture
def network(estimate):
    module, patcher = a_module(), Patcher()
    change = detectors.DETECTORS["torchvision.models.detection.rpn"]
    change(patcher, module, estimate.device)
    yield module.RegionProposalNetwork()
    patcher.undo()


def test_proposals_of_an_untrained_network_are_anchors(estimate, network):
    kept = network.forward(torch.randn(ANCHORS, 1, device="cuda"))
    value = known_value(kept)
    assert value is not None
    assert is_assumed(kept)
    assert len(set(value[:, 0].tolist())) == 50
    texts = [each.text for each in estimate.assumptions]
    assert texts == ["what the detector predicts was taken to be what an untrained one does"]


def test_unique_keeps_the_memory_of_all_elements(estimate):
    numbers = torch.arange(4096, device="cuda") % 10
    found = torch.unique(numbers)
    assert found.tolist() == list(range(10))
    assert found.untyped_storage().nbytes() == numbers.nbytes
