"""Results whose shapes torch's own shape functions do not know, or that depend on values."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from gpumemprof.estimate.engine.values import known_value
from torch.func import functional_call, grad, vmap


def test_an_empty_tensor_that_is_written_through_views_has_its_true_values(estimate):
    counts = torch.tensor([3, 5, 2], device="cuda")
    starts = counts.new_empty(4)
    starts.narrow(0, 0, 1).zero_()
    torch.cumsum(counts, 0, out=starts.narrow(0, 1, 3))
    assert starts.tolist() == [0, 3, 8, 10]
    starts[1:].add_(1)
    assert starts.tolist() == [0, 4, 9, 11]
    assert not list(estimate.assumptions)


def test_an_empty_tensor_that_is_written_in_part_is_unknown(estimate):
    unknown = torch.randn(100_000, device="cuda").exp().long()[:3]
    numbers = torch.empty(4, dtype=torch.int64, device="cuda")
    numbers[:1] = 7
    assert known_value(numbers) is None
    numbers[1:] = unknown
    assert known_value(numbers) is None
    numbers[1:] = 8
    assert numbers.tolist() == [7, 8, 8, 8]


@pytest.mark.parametrize("kind", ["Adagrad", "SparseAdam", "SGD"])
def test_sparse_gradients_of_several_uses_are_joined(estimate, memory, kind):
    table = torch.nn.Embedding(50, 8, sparse=True, device="cuda")
    optimizer = getattr(torch.optim, kind)(table.parameters(), lr=0.1)
    first, second = torch.arange(20, device="cuda"), torch.arange(10, 15, device="cuda")
    (table(first).sum() + table(second).sum()).backward()
    assert table.weight.grad._nnz() == 25
    before = len(memory.sizes)
    assert table.weight.grad.coalesce().values().shape == (20, 8)
    # As recorded on an H200: indices, their order and their places, what sorting and
    # finding different ones take, the sums.
    assert memory.sizes[before:] == [200, 200, 200, 1023, 1535, 640]
    optimizer.step()
    optimizer.zero_grad()


def test_a_dense_and_a_sparse_gradient_make_a_dense_one(estimate):
    table = torch.nn.Embedding(50, 8, sparse=True, device="cuda")
    rows = torch.arange(20, device="cuda")
    (table(rows).sum() + table.weight.sum()).backward()
    assert table.weight.grad.layout is torch.strided


@pytest.mark.parametrize("dims", [2, 3])
@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
@pytest.mark.parametrize("aligned", [True, False])
def test_images_are_sampled_at_the_points_of_a_grid(estimate, dims, mode, aligned):
    images = torch.randn(2, 3, *[6] * dims, device="cuda", requires_grad=True)
    theta = torch.randn(2, dims, dims + 1, device="cuda", requires_grad=True)
    grid = F.affine_grid(theta, (2, 3, *[5] * dims), align_corners=aligned)
    assert grid.shape == (2, *[5] * dims, dims)
    sampled = F.grid_sample(images, grid, mode=mode, align_corners=aligned)
    assert sampled.shape == (2, 3, *[5] * dims)
    sampled.sum().backward()
    assert images.grad.shape == images.shape
    assert theta.grad.shape == theta.shape


def test_quantiles_have_the_shape_of_what_was_asked(estimate):
    data = torch.randn(4, 5, 6, device="cuda")
    several = torch.tensor([0.1, 0.9], device="cuda")
    for function in (torch.quantile, torch.nanquantile):
        assert function(data, 0.1, dim=1).shape == (4, 6)
        assert function(data, 0.9, dim=1, keepdim=True).shape == (4, 1, 6)
        assert function(data, several, dim=1).shape == (2, 4, 6)
        assert function(data, several).shape == (2,)
        assert function(data, several[0]).shape == ()


def test_gradients_of_each_sample_are_found_for_batches_of_several_sizes(estimate):
    layer = torch.nn.Linear(8, 4, device="cuda")
    weights = {name: each.detach() for name, each in layer.named_parameters()}

    def loss(weights, x, label):
        logits = functional_call(layer, weights, (x,))
        return F.cross_entropy(logits.unsqueeze(0), label.unsqueeze(0))

    each_sample = vmap(grad(loss), in_dims=(None, 0, 0), randomness="different")
    for size in (4, 8, 4):
        labels = torch.randint(4, (size,), device="cuda")
        found = each_sample(weights, torch.randn(size, 8, device="cuda"), labels)
        assert found["weight"].shape == (size, 4, 8)


def test_copies_of_any_layout_to_the_card_follow_their_rule(estimate, memory):
    torch.empty(6, 4).t().to("cuda")
    torch.empty(6, 4)[:, ::2].to("cuda")
    torch.empty(6, 4).expand(3, 6, 4).to("cuda", torch.float16, non_blocking=True)
    assert not [each.text for each in estimate.assumptions if "rule failed" in each.text]


def test_bags_without_their_padding_have_gradients(estimate):
    bags = torch.nn.EmbeddingBag(50, 8, mode="mean", sparse=True, padding_idx=0, device="cuda")
    bags(torch.tensor([[0, 3, 4], [0, 0, 5]], device="cuda")).sum().backward()
    assert bags.weight.grad._nnz() == 3


def test_narrow_indices_are_widened_while_they_are_used(estimate, memory):
    table = torch.randn(1000, 8, device="cuda")
    places = torch.zeros(50, dtype=torch.int32, device="cuda")
    before = len(memory.sizes)
    assert table[places].shape == (50, 8)
    assert memory.sizes[before:] == [400, 1600]
    before = len(memory.sizes)
    table[places] = torch.ones(50, 8, device="cuda")
    assert memory.sizes[before:] == [1600, 400]


def test_a_condition_becomes_places_where_tensors_are_written(estimate, memory):
    table, rows = torch.randn(1000, 8, device="cuda"), torch.ones(3, 8, device="cuda")
    kept = torch.arange(1000, device="cuda") < 3
    before = len(memory.sizes)
    table[kept] = rows
    assert memory.sizes[before:] == [24]
    table[kept] = 0.0  # one number: no places
    assert memory.sizes[before:] == [24]


@pytest.mark.skipif(not hasattr(F, "grouped_mm"), reason="this torch has no grouped_mm")
@pytest.mark.parametrize("kind", [torch.float32, torch.float16, torch.bfloat16])
def test_products_of_groups_have_memory_for_their_result_alone(estimate, memory, kind):
    rows = torch.randn(64, 32, device="cuda", dtype=kind, requires_grad=True)
    weights = torch.randn(4, 32, 48, device="cuda", dtype=kind, requires_grad=True)
    ends = torch.tensor([16, 32, 48, 64], device="cuda", dtype=torch.int32)
    torch.mm(rows.detach(), rows.detach().T)  # The workspace of cuBLAS is taken once.
    before = len(memory.sizes)
    made = F.grouped_mm(rows, weights, offs=ends)
    assert made.shape == (64, 48)
    assert memory.sizes[before:] == [64 * 48 * made.element_size()]
    made.backward(torch.ones_like(made))
    assert rows.grad.shape == rows.shape
    assert weights.grad.shape == weights.shape


def sparse_matrix(rows, count):
    indices = torch.randint(0, rows, (2, count))
    matrix = torch.sparse_coo_tensor(indices, torch.ones(count), (rows, rows))
    return matrix.coalesce().cuda()


def test_a_sparse_product_takes_no_dense_matrix(estimate, memory):
    matrix = sparse_matrix(20_000, 50_000)
    count = matrix._nnz()
    features = torch.randn(20_000, 8, device="cuda", requires_grad=True)
    memory.sizes.clear()
    result = torch.sparse.mm(matrix, features)
    # Zeros and the result; starts of rows, rows and columns of 32 bits; the result by columns.
    rows = [4 * 20_001, 4 * count, 4 * count]
    assert sorted(memory.sizes) == sorted([*[result.nbytes] * 3, *rows])
    memory.sizes.clear()
    result.sum().backward()
    assert features.grad.shape == features.shape
    # The transposed matrix is a copy whose elements are sorted anew.
    assert memory.sizes.count(2 * 8 * count) == 2
    assert max(memory.sizes) < 3 * 8 * count


def test_the_derivative_of_a_product_knows_where_the_zeros_are(estimate, memory):
    factors = torch.randn(3, 1000, 100, device="cuda", requires_grad=True)
    total = factors.prod(0).sum()
    memory.sizes.clear()
    total.backward()
    count = factors.numel()
    assert count in memory.sizes  # one byte each
    assert 8 * count // 3 in memory.sizes
    found = estimate.device.doubt.bytes_by_certainty()
    assert found["absent"] == 4 * count // 3 + 4 * 4 * count
    del total
    assert memory.allocated_bytes == 2 * factors.nbytes


def test_the_derivative_of_a_cumulative_product_divides(estimate, memory):
    factors = torch.rand(1000, 64, device="cuda", requires_grad=True)
    total = factors.cumprod(1).sum()
    before = memory.allocated_bytes
    memory.peak_allocated_bytes = 0
    total.backward()
    # The product with the gradient, where it is zero, and three copies for sums from the end.
    assert memory.peak_allocated_bytes <= before + 4 * factors.nbytes + factors.numel() + 1024
    del total
    assert memory.allocated_bytes == 2 * factors.nbytes


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
def test_in_inference_mode_too_an_image_is_resized_by_one_kernel(estimate, memory, mode):
    images = torch.randn(2, 3, 64, 64, device="cuda")
    memory.sizes.clear()
    with torch.inference_mode():
        larger = F.interpolate(images, scale_factor=2, mode=mode)
    assert memory.sizes == [larger.nbytes] == [4 * images.nbytes]
