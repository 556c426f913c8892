"""What the program reads: true where it is known, assumed and stated where it is not."""

from __future__ import annotations

import pytest
import torch
from counting_memory import CARD, CountingMemory
from gpumemprof.estimate.engine import session


def assumed(running):
    return [(each.kind, each.text, each.line.number) for each in running.assumptions]


def weights(*shape):
    """Numbers that nobody knows: those of a model."""
    return torch.nn.Parameter(torch.randn(*shape, device="cuda")).detach()


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
    number.copy_(weights(100_000).sum())
    assert number.item() == pytest.approx(0.5, abs=1e-4)
    assert len(assumed(estimate)) == 1


def test_a_mask_that_is_made_smaller_keeps_its_values(estimate):
    mask = torch.ones(2, 512, 640, dtype=torch.long)
    mask[1, :, 600:] = 0
    pixels = mask.to("cuda")[None].float()
    small = torch.nn.functional.interpolate(pixels, size=(16, 20)).to(torch.bool)[0]
    assert not small.all()
    assert small[0].all()
    assert small.sum().item() == 16 * (20 + 19)
    assert assumed(estimate) == []


def test_an_unknown_float_is_never_zero_and_falls(estimate):
    data = weights(100_000)
    read = [data.mean().item() for _ in range(3)]
    assert read == pytest.approx([1 / 2, 1 / 3, 1 / 4], abs=1e-4)


def test_state_of_an_optimizer_whose_first_step_may_be_skipped_is_in_doubt(estimate):
    model = torch.nn.Linear(500, 1000, bias=False, device="cuda")
    scaler = torch.amp.GradScaler("cuda")
    for is_scaled in (True, False):
        optimizer = torch.optim.Adam(model.parameters())
        loss = model(torch.randn(8, 500, device="cuda")).sum()
        (scaler.scale(loss) if is_scaled else loss).backward()
        if is_scaled:
            scaler.step(optimizer)
            scaler.update()
        else:
            optimizer.step()
        torch.empty(50_000_000, device="cuda")  # the peak
        absent = estimate.device.doubt.bytes_by_certainty()["absent"]
        # Both moments; the count of steps is on the CPU.
        assert absent == (2 * 4 * 500_000 if is_scaled else 0)
        del optimizer
        torch.empty(60_000_000, device="cuda")
    stated = [text for _, text, _ in assumed(estimate)]
    assert any(text.startswith("scaled gradients were taken to be finite") for text in stated)


def test_the_same_tensor_is_read_as_the_same_number(estimate):
    loss = weights(100_000).mean()
    assert loss.item() == loss.item()
    before = loss.item()
    loss.add_(weights(100_000).mean())
    assert loss.item() != before


def test_a_loop_that_waits_for_a_small_value_ends(estimate):
    data = weights(100_000)
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
    data = weights(100_000)
    norm = data.norm()
    for _ in range(3):
        if norm > 1e-3 or not torch.isfinite(norm) or norm.isnan() or norm.isinf():
            break
    else:
        return
    pytest.fail("it ended")


def test_a_limit_of_the_values_themselves_selects_its_share(estimate):
    data = weights(100_000)
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
    # Two tensors for each step, and what one step and its line search hold.
    found = estimate.device.doubt.bytes_by_certainty()
    assert 22 * 400_000 <= found["absent"] <= 31 * 400_384 + (32 << 20)
    assert found["above"] >= 2 * 400_000


def test_lbfgs_keeps_no_step_of_a_mean_over_many_numbers(estimate):
    def kept(parameters, reduce):
        optimizer = torch.optim.LBFGS(parameters, max_iter=4)

        def closure():
            optimizer.zero_grad()
            loss = 2 * reduce(sum((each * each).sum(-1) for each in parameters)) + 1
            loss.backward()
            return loss

        for _ in range(2):
            optimizer.step(closure)
        return len(optimizer.state[parameters[0]]["old_dirs"])

    image = torch.randn(300, 400, device="cuda", requires_grad=True)
    assert kept([image], torch.mean) == 0
    assert kept([image], torch.sum) == 7
    assert kept([torch.nn.Parameter(image.detach())], torch.mean) == 0
    # A few numbers, and a network's.
    assert kept([torch.randn(30, 40, device="cuda", requires_grad=True)], torch.mean) == 7
    layer = torch.nn.Linear(400, 300).to("cuda")
    assert kept([layer.weight], torch.mean) == 7


def test_steps_that_lbfgs_may_keep_are_in_the_band(estimate, memory):
    image = torch.randn(1 << 20, device="cuda", requires_grad=True)
    optimizer = torch.optim.LBFGS([image], max_iter=4, history_size=5)

    def closure():
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(image, torch.zeros_like(image))
        loss.backward()
        return loss

    for _ in range(3):
        optimizer.step(closure)
    found = estimate.device.doubt.bytes_by_certainty()
    # Two tensors for each of five steps.
    assert 8 * image.nbytes <= found["above"] <= 10 * image.nbytes
    assert "keep none" in str(assumed(estimate))


def test_lbfgs_may_end_before_it_takes_any_memory(estimate, memory):
    weight = torch.nn.Parameter(torch.randn(100_000, device="cuda"))
    optimizer = torch.optim.LBFGS([weight], max_iter=4)

    def closure():
        optimizer.zero_grad()
        loss = (weight * weight).sum()
        loss.backward()
        return loss

    closure()
    alone = memory.most_allocated_bytes
    optimizer.zero_grad()
    for _ in range(2):
        optimizer.step(closure)
    found = estimate.device.doubt.bytes_by_certainty()
    assert memory.most_allocated_bytes - found["absent"] <= alone + 1024
    assert ("behaviour", "L-BFGS") in [(kind, text[:6]) for kind, text, _ in assumed(estimate)]


def test_known_gradients_are_forgotten_when_others_are_added(estimate):
    weight = torch.zeros(100_000, device="cuda", requires_grad=True)
    data = weights(100_000)
    halves = weight * 2
    # The gradient of the first square is known, because the weights are 0; not that of the sum.
    (halves.square().sum() + (halves * data).sum()).backward()
    assert weight.grad.abs().max().item() != 0


def test_what_the_rounds_of_a_loop_that_waits_leave_behind_is_in_doubt(estimate):
    data, kept = weights(100_000), []

    def wait():
        while data.norm() > 0.01:
            kept.append(torch.empty(1_000_000, device="cuda"))

    wait()
    torch.empty(100_000_000, device="cuda")  # the peak
    found = estimate.device.doubt.bytes_by_certainty()
    assert found["guess"] == (len(kept) - 1) * 4_000_000 > 0
    assert found["above"] == found["guess"]


def test_what_a_loop_that_may_end_early_leaves_behind_may_be_absent(estimate):
    data, kept = weights(100_000), []

    def search():
        for _ in range(8):
            kept.append(torch.empty(1_000_000, device="cuda"))
            if data.norm() < 0.01:
                break

    search()
    torch.empty(100_000_000, device="cuda")  # the peak
    assert estimate.device.doubt.bytes_by_certainty()["absent"] == 6 * 4_000_000


def test_steps_of_a_training_loop_with_a_check_leave_nothing_in_doubt(estimate):
    model = torch.nn.Linear(500, 1000, bias=False, device="cuda")
    optimizer = torch.optim.SGD(model.parameters())

    def train():
        for _ in range(5):
            loss = model(torch.randn(8, 500, device="cuda")).sum()
            if torch.isnan(loss):
                continue
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    train()
    found = estimate.device.doubt.bytes_by_certainty()
    assert found["absent"] == 0
    assert found["guess"] == 0


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
        unknown = weights(100_000).mean()
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
    mask = weights(1_000_000) > 0
    assert int(mask.sum()) == torch.nonzero(mask).shape[0] == 500_000
    mask = weights(1_000_000).exp() > 0
    assert int(mask.sum()) == torch.nonzero(mask).shape[0] == 1_000_000


def test_arrays_of_numpy_are_changed_for_real(estimate):
    import numpy as np

    array = np.zeros(4)
    tensor = torch.from_numpy(array)
    tensor += 2
    assert array.tolist() == [2, 2, 2, 2]


def test_masks_with_unknown_values_select_all_and_say_so(estimate):
    data = weights(2000, 50).exp()
    assert data[data > 0].shape == (100_000,)
    kinds = {kind for kind, _, _ in assumed(estimate)}
    assert kinds == {"shape"}


def test_a_router_spreads_tokens_evenly(estimate):
    scores = weights(1024, 8)
    chosen = torch.topk(scores, 2).indices
    per_expert = [torch.where(chosen == expert)[0].numel() for expert in range(8)]
    assert per_expert == [256] * 8


def test_a_router_with_many_tokens_spreads_them_evenly(estimate):
    chosen = weights(300_000, 4).softmax(-1).topk(2).indices
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
    sizes = weights(8000).exp()
    levels = torch.clamp(torch.floor(4 + torch.log2(sizes)), min=2, max=5).to(torch.int64) - 2
    assert [int(torch.where(levels == level)[0].numel()) for level in range(4)] == [2000] * 4


def test_a_sampler_takes_as_many_as_it_wants(estimate):
    matches = (weights(50_000).exp() * 9).to(torch.int64)
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
    array = weights(100, 100).cpu().numpy()
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


def test_a_large_mask_of_known_numbers_is_counted(estimate):
    """Pairs of points that are near each other, as neighbour lists have them."""
    places = torch.cartesian_prod(*[torch.arange(14.0)] * 3).to("cuda").requires_grad_()
    with torch.no_grad():
        near = torch.cdist(places, places) < 1.1
        near &= torch.arange(len(places), device="cuda")[:, None] > 0
        near.fill_diagonal_(False)
        pairs = near.nonzero()
    assert pairs.shape == (6 * 14**2 * 13 - 3, 2)
    assert assumed(estimate) == []


def test_a_mask_of_random_numbers_and_known_cells_is_drawn(estimate):
    """Samples of rays that lie within a ball, as in an occupancy grid."""
    middle = (torch.arange(64, device="cuda") + 0.5) / 64 - 0.5
    ball = (middle[:, None, None] ** 2 + middle[:, None] ** 2 + middle**2).sqrt() < 0.35
    points = torch.rand(500_000, 3, device="cuda")
    cell = (points * 64).long()
    hit = ball[cell[..., 0], cell[..., 1], cell[..., 2]]
    share = points[hit].shape[0] / 500_000
    assert share == pytest.approx(4 / 3 * 3.14159 * 0.35**3, rel=0.02)
    assert len(points[hit]) == len(points[hit])
    (found,) = {(kind, text.split(", ")[-1]) for kind, text, _ in assumed(estimate)}
    assert found == ("shape", "as expected of random numbers")


def test_a_large_mask_is_written_through_its_views(estimate):
    mask = torch.zeros(3000, 2000, dtype=torch.bool, device="cuda")
    mask[10:20] = True
    mask.view(-1)[:5] = True
    row = mask[0]
    row[1999] = True
    assert mask.nonzero().shape == (20_006, 2)
    mask[0] = weights(100, 2000).sum(0) > 5
    assert mask.nonzero().shape == (6_000_000, 2)
    assert {kind for kind, _, _ in assumed(estimate)} == {"shape"}


def test_what_follows_from_weights_stays_unknown(estimate):
    layer = torch.nn.Linear(100, 100, device="cuda")
    table = torch.nn.Parameter(torch.rand(5000, 100, device="cuda") + 1)
    for each in (layer(torch.ones(5000, 100, device="cuda")), table.detach(), table[:4999]):
        assert torch.nonzero(each > 1.5).shape[0] in (each.numel(), each.numel() // 2)
    assert {kind for kind, _, _ in assumed(estimate)} == {"shape"}


def test_a_value_that_changes_after_its_use_does_not_count_later(estimate):
    rows = torch.arange(3000, device="cuda")
    mask = rows[:, None] >= rows
    rows += 1
    other = torch.zeros(3000, 3000, dtype=torch.bool, device="cuda").logical_or(mask)
    assert other.nonzero().shape[0] == 3000 * 3001 // 2


def test_what_a_mask_of_unknown_values_selects_may_be_absent(estimate):
    scores = weights(50_000, 8)
    chosen = scores[scores.sum(1) > 0]
    assert chosen.shape == (50_000, 8)
    doubled = torch.cat([chosen, chosen], dim=1)
    found = estimate.device.doubt.bytes_by_certainty()
    assert found["absent"] >= chosen.nbytes + doubled.nbytes
    assert found["exact"] >= scores.nbytes


def test_values_of_what_was_counted_are_known_through_its_views(estimate):
    numbers = torch.arange(100, device="cuda")
    places = torch.nonzero(numbers % 7 == 3)
    assert places[:4, 0].tolist() == [3, 10, 17, 24]
    assert (numbers[places[:, 0]] % 7 == 3).all()
    assert assumed(estimate) == []


def test_a_part_without_a_measurement_may_be_absent_or_larger(estimate):
    classes = (weights(80_000).exp() * 9).to(torch.int64)
    rows = weights(80_000, 4)[classes > 0]
    assert rows.shape == (20_000, 4)
    assert estimate.device.doubt.bytes_by_certainty()["guess"] >= rows.nbytes
