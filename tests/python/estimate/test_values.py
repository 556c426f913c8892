"""What the program reads: true where it is known, assumed and stated where it is not."""

from __future__ import annotations

import pytest
import torch
from counting_memory import CARD, CountingMemory
from gpumemprof.estimate.engine import session


def assumed(running):
    return [(each.kind, each.text, each.line.number) for each in running.assumptions]


def test_small_integers_have_their_true_values(estimate):
    numbers = torch.arange(10, device="cuda")
    numbers[3] = 50
    assert numbers.sum().item() == 45 - 3 + 50
    assert numbers.tolist() == [0, 1, 2, 50, 4, 5, 6, 7, 8, 9]
    assert bool((numbers > 8).any())
    assert torch.tensor([1, 2], device="cuda").cpu().numpy().tolist() == [1, 2]
    assert assumed(estimate) == []


def test_a_value_that_is_overwritten_with_an_unknown_one_is_forgotten(estimate):
    number = torch.zeros((), device="cuda")
    number.copy_(torch.randn(100_000, device="cuda").sum())
    assert number.item() == pytest.approx(0.5, abs=1e-4)
    assert len(assumed(estimate)) == 1


def test_an_unknown_float_is_never_zero_and_falls(estimate):
    data = torch.randn(100_000, device="cuda")
    read = [data.mean().item() for _ in range(3)]
    assert read == pytest.approx([1 / 2, 1 / 3, 1 / 4], abs=1e-4)


def test_the_same_tensor_is_read_as_the_same_number(estimate):
    loss = torch.randn(100_000, device="cuda").mean()
    assert loss.item() == loss.item()
    before = loss.item()
    loss.add_(torch.randn(100_000, device="cuda").mean())
    assert loss.item() != before


def test_a_loop_that_waits_for_a_small_value_ends(estimate):
    data = torch.randn(100_000, device="cuda")
    rounds = 0
    while data.norm() > 1e-6:
        rounds += 1
    assert 10 <= rounds <= 30
    while True:
        rounds += 1
        if data.mean().item() < 1e-10:
            break
    while (data > 3).any():
        rounds += 1
    while int((data.exp() > 3).sum()) != 7:
        rounds += 1
    assert rounds < 1000
    assert {kind for kind, _, _ in assumed(estimate)} == {"value"}


def test_a_check_that_would_end_the_work_does_not(estimate):
    data = torch.randn(100_000, device="cuda")
    norm = data.norm()
    for _ in range(3):
        if norm > 1e-3 or not torch.isfinite(norm) or norm.isnan() or norm.isinf():
            break
    else:
        return
    pytest.fail("it ended")


def test_a_limit_of_the_values_themselves_selects_its_share(estimate):
    data = torch.randn(100_000, device="cuda")
    assert data[data > data.mean()].shape == (50_000,)
    assert data[data.abs() > data.abs().kthvalue(90_000).values].shape == (10_000,)
    assert torch.relu(data).nonzero().shape == (50_000, 1)
    assert 99_000 < data[data.abs() < 3].numel() < 100_000


def test_the_history_of_lbfgs_is_kept_and_may_be_absent(estimate):
    weight = torch.nn.Parameter(torch.randn(100_000, device="cuda"))
    optimizer = torch.optim.LBFGS([weight], max_iter=4, line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        loss = (weight * weight).sum()
        loss.backward()
        return loss

    for _ in range(3):
        optimizer.step(closure)
    assert len(optimizer.state[weight]["old_dirs"]) == 11
    # Two tensors for each step; the last ones are not in doubt before the peak.
    absent = estimate.device.doubt.bytes_by_certainty()["absent"]
    assert 16 * 400_000 <= absent <= 22 * 400_384


def test_assertions_of_the_program_hold(estimate):
    data = torch.randn(100_000, device="cuda")
    assert (data < 1e9).sum() >= 0
    assert torch.isfinite(data.mean())
    if torch.isnan(data.mean()):
        pytest.fail("a mean is assumed to be a number")


def test_the_user_may_choose_a_value():
    number = test_the_user_may_choose_a_value.__code__.co_firstlineno + 5
    settings = session.Settings(assumed_values={f"test_values.py:{number}": 7.5})
    with session.estimating(CARD, settings, CountingMemory()):
        unknown = torch.randn(100_000, device="cuda").mean()
        found = unknown.item()
    assert found == 7.5


def test_masks_with_known_values_select_the_true_number(estimate):
    numbers = torch.arange(100, device="cuda")
    assert numbers[numbers % 7 == 0].shape == (15,)
    assert torch.nonzero(numbers > 89).shape == (10, 1)
    assert torch.unique(numbers // 10).tolist() == list(range(10))
    assert torch.repeat_interleave(torch.tensor([1, 2, 3], device="cuda")).shape == (6,)
    assert assumed(estimate) == []


def test_a_count_agrees_with_what_a_mask_selects(estimate):
    mask = torch.randn(1_000_000, device="cuda") > 0
    assert int(mask.sum()) == torch.nonzero(mask).shape[0] == 500_000
    mask = torch.randn(1_000_000, device="cuda").exp() > 0
    assert int(mask.sum()) == torch.nonzero(mask).shape[0] == 1_000_000


def test_arrays_of_numpy_are_changed_for_real(estimate):
    import numpy as np

    array = np.zeros(4)
    tensor = torch.from_numpy(array)
    tensor += 2
    assert array.tolist() == [2, 2, 2, 2]


def test_masks_with_unknown_values_select_all_and_say_so(estimate):
    data = torch.randn(2000, 50, device="cuda").exp()
    assert data[data > 0].shape == (100_000,)
    kinds = {kind for kind, _, _ in assumed(estimate)}
    assert kinds == {"shape"}


def test_a_router_spreads_tokens_evenly(estimate):
    scores = torch.randn(1024, 8, device="cuda")
    chosen = torch.topk(scores, 2).indices
    per_expert = [torch.where(chosen == expert)[0].numel() for expert in range(8)]
    assert per_expert == [256] * 8


def test_a_router_with_many_tokens_spreads_them_evenly(estimate):
    chosen = torch.randn(300_000, 4, device="cuda").softmax(-1).topk(2).indices
    counts = torch.bincount(chosen.flatten(), minlength=4)
    assert counts.tolist() == [150_000] * 4
    assert [len(part) for part in chosen.flatten().split(counts.tolist())] == [150_000] * 4


def test_random_numbers_pass_a_threshold_as_often_as_expected(estimate):
    picked = torch.rand(400, 1000, device="cuda") < 0.15
    assert torch.where(picked)[0].shape == (60_000,)
    assert torch.where(~picked.flatten())[0].shape == (340_000,)
    edges = torch.zeros(2, 10_000, device="cuda", dtype=torch.int64)
    assert edges[:, torch.rand(10_000, device="cuda") >= 0.3].shape == (2, 7000)


def test_levels_between_bounds_are_spread_evenly(estimate):
    sizes = torch.randn(8000, device="cuda").exp()
    levels = torch.clamp(torch.floor(4 + torch.log2(sizes)), min=2, max=5).to(torch.int64) - 2
    assert [int(torch.where(levels == level)[0].numel()) for level in range(4)] == [2000] * 4


def test_a_sampler_takes_as_many_as_it_wants(estimate):
    matches = (torch.randn(50_000, device="cuda").exp() * 9).to(torch.int64)
    chosen = torch.zeros_like(matches, dtype=torch.uint8)
    for found, count in ((torch.where(matches >= 1)[0], 128), (torch.where(matches == 0)[0], 384)):
        order = torch.randperm(found.numel(), device="cuda")[:count]
        chosen[found[order]] = 1
    assert torch.where(chosen)[0].shape == (512,)


def test_the_user_may_choose_how_many_a_mask_selects():
    number = test_the_user_may_choose_how_many_a_mask_selects.__code__.co_firstlineno + 5
    settings = session.Settings(assumed_values={f"test_values.py:{number}": 0.25})
    with session.estimating(CARD, settings, CountingMemory()):
        data = torch.randn(1000, device="cuda", requires_grad=True).repeat(8).exp()
        found = data[data > 2]
    assert found.shape == (2000,)


def test_arrays_of_unknown_values_are_zeros(estimate):
    array = torch.randn(100, 100, device="cuda").cpu().numpy()
    assert array.shape == (100, 100)
    assert (array == 0).all()
    with pytest.raises(TypeError, match="cuda:0 device type tensor"):
        torch.randn(3, device="cuda").numpy()


def test_the_cpu_draws_the_numbers_that_it_would_draw_beside_a_gpu():
    def draw(device: str) -> list[int]:
        torch.manual_seed(5)
        weights = torch.nn.Linear(1000, 301), torch.nn.Embedding(1001, 33), torch.nn.LSTM(7, 9)
        torch.nn.init.normal_(torch.empty(11))
        torch.rand(300_001, dtype=torch.float64)
        torch.nn.ModuleList(weights).to(device)
        if device == "cuda":
            torch.rand(100, device="cuda")
            torch.randperm(100, device="cuda")
        return torch.randint(0, 1000, (6,)).tolist()

    real = draw("cpu")
    with session.estimating(CARD, session.Settings(), CountingMemory()):
        predicted = draw("cuda")
    assert predicted == real
