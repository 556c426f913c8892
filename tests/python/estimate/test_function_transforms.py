"""torch.func: what vmap, grad and forward derivatives compute is seen operation by operation."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, vmap


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.Linear(16, 8), (16,)),
        (nn.Conv2d(4, 8, 3, padding=1), (4, 8, 8)),
        (nn.GroupNorm(2, 8), (8, 8, 8)),
        (nn.LayerNorm(16), (4, 16)),
        (nn.InstanceNorm2d(8, affine=True), (8, 8, 8)),
        (nn.MultiheadAttention(16, 2, batch_first=True), (4, 16)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_gradients_of_each_sample_have_their_shapes(estimate, layer, shape):
    layer = layer.cuda()
    weights = {name: each.detach() for name, each in layer.named_parameters()}

    def loss(weights, sample):
        inputs = (sample[None],) * (3 if isinstance(layer, nn.MultiheadAttention) else 1)
        result = functional_call(layer, weights, inputs)
        return (result[0] if isinstance(result, tuple) else result).square().sum()

    for _ in range(2):  # The second time, shapes are remembered.
        found = vmap(grad(loss), in_dims=(None, 0))(weights, torch.randn(5, *shape, device="cuda"))
        expected = {name: (5, *each.shape) for name, each in weights.items()}
        assert {name: tuple(each.shape) for name, each in found.items()} == expected


def test_derivatives_of_derivatives_and_forward_ones(estimate):
    model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1)).cuda()
    points = torch.randn(7, 6, device="cuda")
    assert vmap(jacrev(model))(points).shape == (7, 1, 6)
    assert vmap(jacfwd(model))(points).shape == (7, 1, 6)
    assert vmap(hessian(lambda point: model(point)[0]))(points).shape == (7, 6, 6)
    _, tangent = jvp(grad(lambda each: model(each).sum()), (points,), (torch.ones_like(points),))
    assert tangent.shape == points.shape
    laplacian = vmap(lambda point: jacfwd(jacrev(lambda at: model(at)[0]))(point).trace())(points)
    laplacian.mean().backward()
    assert model[0].weight.grad.shape == (16, 6)


def test_views_in_place_change_the_shape_every_time(estimate):
    for _ in range(2):
        data = torch.randn(3, 4, device="cuda")
        data.unsqueeze_(-1)
        assert data.shape == (3, 4, 1)
        assert data.squeeze_().shape == (3, 4)


def test_a_dense_tensor_becomes_sparse(estimate):
    found = torch.eye(10, device="cuda").to_sparse()
    assert found.layout == torch.sparse_coo
    assert found.coalesce().indices().shape == (2, 10)
