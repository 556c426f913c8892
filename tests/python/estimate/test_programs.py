"""What programs do beside computing: loading data, saving, random numbers, streams, graphs."""

from __future__ import annotations

import copy
import io
import multiprocessing

import pytest
import torch
from counting_memory import CARD
from gpumemprof.estimate.engine import session
from gpumemprof.estimate.engine.failures import CannotEstimate
from gpumemprof.estimate.engine.fake_mode import outside_modes
from torch.utils.data import DataLoader, Dataset, TensorDataset


class Squares(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return torch.full((3,), float(index)), index * index


@pytest.mark.parametrize("workers", [0, 2])
def test_data_is_loaded_for_real(estimate, memory, workers):
    loader = DataLoader(Squares(), batch_size=4, num_workers=workers, pin_memory=True)
    squares = []
    for data, labels in loader:
        squares += labels.tolist()
        assert data.to("cuda", non_blocking=True).shape == (4, 3)
    assert squares == [0, 1, 4, 9, 16, 25, 36, 49]
    assert memory.sizes == [48, 48]


def test_workers_send_fake_data_as_zeros(estimate):
    data = TensorDataset(torch.randn(10, 5), torch.arange(10))
    batches = list(DataLoader(data, batch_size=5, num_workers=1))
    assert [tuple(each[0].shape) for each in batches] == [(5, 5), (5, 5)]


def test_nothing_is_written_and_what_was_saved_can_be_loaded(estimate, memory, tmp_path):
    model = torch.nn.Linear(4, 4, bias=False, device="cuda")
    path = tmp_path / "checkpoint.pt"
    torch.save({"model": model.state_dict(), "step": 3}, path)
    assert path.exists()
    assert list(tmp_path.iterdir()) == []
    before = memory.allocated_bytes
    loaded = torch.load(path)
    assert loaded["step"] == 3
    assert memory.allocated_bytes - before == 64
    model.load_state_dict(loaded["model"])
    on_cpu = torch.load(path, map_location="cpu")
    assert on_cpu["model"]["weight"].device.type == "cpu"


def test_a_process_of_the_program_is_stated_and_a_loader_is_not(estimate):
    loader = DataLoader(Squares(), batch_size=4, num_workers=1)
    assert len(list(loader)) == 2
    assert not list(estimate.assumptions)
    process = multiprocessing.get_context("fork").Process(target=copy.copy, args=(1,))
    process.start()
    process.join()
    (stated,) = estimate.assumptions
    assert stated.text.startswith("a process that the program starts is not predicted")


def test_checkpointed_code_makes_tensors_from_numbers_on_the_card(estimate, memory):
    layer = torch.nn.Linear(64, 64, device="cuda")

    def masked(x):
        least = torch.tensor(torch.finfo(x.dtype).min, dtype=x.dtype, device=x.device)
        return torch.where(layer(x) > 0, x, least)

    x = torch.randn(8, 64, device="cuda", requires_grad=True)
    kept = []
    for _ in range(2):
        torch.utils.checkpoint.checkpoint(masked, x, use_reentrant=False).sum().backward()
        kept.append(memory.allocated_bytes)
    assert x.grad.shape == x.shape
    assert kept[0] == kept[1]


def test_random_states_survive_saving(estimate, tmp_path):
    torch.save({"random": torch.get_rng_state(), "step": torch.tensor(7)}, tmp_path / "state.pt")
    loaded = torch.load(tmp_path / "state.pt")
    torch.set_rng_state(loaded["random"])
    assert loaded["step"].item() == 7


def test_real_files_are_read(memory, tmp_path):
    torch.save({"weight": torch.arange(6.0), "step": 4}, tmp_path / "real.pt")
    with session.estimating(CARD, memory=memory):
        on_cpu = torch.load(tmp_path / "real.pt")
        assert on_cpu["step"] == 4
        assert on_cpu["weight"].tolist() == [0, 1, 2, 3, 4, 5]
        on_card = torch.load(tmp_path / "real.pt", map_location="cuda")
        assert on_card["weight"].device.type == "cuda"
        assert memory.allocated_bytes == 24


def test_a_tensor_that_grows_gets_a_larger_block(estimate, memory):
    tensor = torch.empty(10, device="cuda")
    tensor.resize_(100)
    assert sorted(memory.live.values()) == [400]
    tensor.resize_(5)
    assert sorted(memory.live.values()) == [400]


def test_an_existing_file_is_left_as_it_is(estimate, tmp_path):
    path = tmp_path / "best.pt"
    path.write_bytes(b"precious")
    torch.save({"x": torch.ones(3)}, path)
    assert path.read_bytes() == b"precious"


def test_a_buffer_can_be_saved_to(estimate):
    buffer = io.BytesIO()
    torch.save([torch.ones(3, device="cuda")], buffer)
    buffer.seek(0)
    assert torch.load(buffer)[0].device.type == "cuda"


def test_a_scaler_finds_finite_gradients(estimate):
    model = torch.nn.Linear(64, 64, device="cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    for _ in range(2):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(torch.randn(8, 64, device="cuda")).float().mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
    assert scaler.get_scale() == 65536.0


def _states_with_factor(factor, dtype):
    """Whether the optimizer has made its state, after each of six steps."""
    model = torch.nn.Linear(64, 64).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    scaler = torch.amp.GradScaler("cuda")
    found = []
    for _ in range(6):
        with torch.autocast("cuda", dtype=dtype):
            out = model(torch.randn(8, 64, device="cuda")).float()
            loss = out.mean() + factor * out.square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        found.append(bool(optimizer.state))
    return found


def test_a_loss_with_a_large_factor_skips_steps_until_the_scale_is_small(estimate):
    # 65,536 * 50 * 0.35 is more than half precision has; a 32nd of it is not.
    assert _states_with_factor(50.0, torch.float16) == [False] * 5 + [True]
    assert _states_with_factor(2.0, torch.float16) == [True] * 6


def test_only_half_precision_overflows(estimate):
    assert _states_with_factor(50.0, torch.bfloat16) == [True] * 6


def test_circles_of_tensors_live_until_python_would_collect_them(estimate, memory):
    import gc

    class Node:
        def __init__(self):
            self.tensor = torch.zeros(1 << 18, device="cuda")
            self.itself = self

    gc.collect()
    before = memory.most_allocated_bytes
    limit = gc.get_threshold()[0]
    for _ in range(limit):
        Node()
    # Each is two objects; in a prediction, a tensor alone is about ten.
    most = (memory.most_allocated_bytes - before) >> 20
    assert 0.3 * limit <= most <= 0.7 * limit


def test_lbfgs_keeps_its_history(estimate, memory):
    weight = torch.nn.Parameter(torch.randn(10_000, device="cuda"))
    optimizer = torch.optim.LBFGS([weight], max_iter=4, history_size=10)

    def closure():
        optimizer.zero_grad()
        loss = (weight**2).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    assert len(optimizer.state[weight]["old_dirs"]) == 3


def test_fused_cells_have_shapes(estimate):
    for cell in (torch.nn.GRUCell(8, 16), torch.nn.LSTMCell(8, 16)):
        cell.to("cuda")
        state = cell(torch.randn(4, 8, device="cuda"))
        hidden = state[0] if isinstance(state, tuple) else state
        hidden.sum().backward()
        assert cell.weight_ih.grad.shape == cell.weight_ih.shape


def test_recurrent_networks_run(estimate):
    for kind in (torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN):
        network = kind(8, 16, num_layers=2, bidirectional=True, batch_first=True).to("cuda")
        packed = torch.nn.utils.rnn.pack_padded_sequence(
            torch.randn(3, 5, 8, device="cuda"), torch.tensor([5, 4, 2]), batch_first=True
        )
        output, _ = network(packed)
        output, lengths = torch.nn.utils.rnn.pad_packed_sequence(output, batch_first=True)
        assert output.shape == (3, 5, 32)
        assert lengths.tolist() == [5, 4, 2]
        output.sum().backward()


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_ctc_loss_runs_wherever_its_lengths_are(estimate, device):
    scores = torch.randn(50, 4, 20, device="cuda", requires_grad=True)
    targets = torch.randint(1, 20, (4, 10), device=device)
    inputs = torch.full((4,), 50, device=device)
    lengths = torch.tensor([10, 9, 8, 7], device=device)
    loss = torch.nn.functional.ctc_loss(scores.log_softmax(2), targets, inputs, lengths)
    loss.backward()
    assert scores.grad.shape == scores.shape


def test_a_transformer_encoder_runs_in_evaluation(estimate):
    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    encoder = torch.nn.TransformerEncoder(layer, 2).to("cuda").eval()
    mask = torch.zeros(3, 7, dtype=torch.bool, device="cuda")
    mask[:, 5:] = True
    with torch.no_grad():
        output = encoder(torch.randn(3, 7, 16, device="cuda"), src_key_padding_mask=mask)
    assert output.shape[0] == 3 and output.shape[2] == 16


def test_streams_events_and_graphs_run(estimate, memory):
    stream = torch.cuda.Stream()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    with torch.cuda.stream(stream):
        tensor = torch.empty(10, device="cuda")
    tensor.record_stream(stream)
    end.record()
    torch.cuda.synchronize()
    assert start.elapsed_time(end) > 0
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = tensor * 2
    graph.replay()
    assert result.shape == (10,)


def test_generators_of_the_device_exist(estimate):
    generator = torch.Generator(device="cuda").manual_seed(3)
    assert generator.device == torch.device("cuda:0")
    assert torch.randn(5, device="cuda", generator=generator).shape == (5,)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_generator_of_the_program_stays_in_step_though_large_tensors_are_not_filled(
    estimate, dtype
):
    def draw():
        generator = torch.Generator().manual_seed(3)
        torch.randn(300_001, generator=generator, dtype=dtype)
        torch.empty(300_000, dtype=dtype).uniform_(generator=generator)
        return torch.randint(0, 1000, (8,), generator=generator).tolist()

    predicted = draw()
    with outside_modes():
        assert predicted == draw()


def test_what_is_compiled_by_others_runs_eagerly_and_says_so(estimate):
    model = torch.compile(torch.nn.Linear(4, 4).to("cuda"), backend="tensorrt")
    assert model(torch.randn(2, 4, device="cuda")).shape == (2, 4)
    assert any("torch.compile" in each.text for each in estimate.assumptions)


def test_captures_share_a_stream_and_their_pool_lives_as_long_as_they(estimate, memory):
    used: list[tuple[int, tuple[int, int]]] = []
    released: list[tuple[int, int]] = []
    allocate = memory.allocate

    def watched(size, stream=0, pool=(0, 0)):
        used.append((stream, pool))
        return allocate(size, stream, pool)

    memory.allocate = watched
    memory.release_pool = released.append
    first, second = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(first):
        assert torch.cuda.is_current_stream_capturing()
        kept = torch.empty(10, device="cuda")
    with torch.cuda.graph(second, pool=first.pool()):
        also_kept = torch.empty(10, device="cuda")
    assert not torch.cuda.is_current_stream_capturing()
    torch.empty(10, device="cuda")
    # Seed and offset of random numbers, before the first capture; then the three tensors.
    stream, pool = used[0][0], first.pool()
    assert stream != 0 and pool != (0, 0)
    assert used == [(stream, (0, 0))] * 2 + [(stream, pool)] * 2 + [(0, (0, 0))]
    del first
    assert released == []
    del second
    assert released == [pool]
    assert kept.shape == also_kept.shape


def test_a_pool_of_the_program_is_emptied_when_it_dies(estimate, memory):
    emptied: list[tuple[int, int]] = []
    memory.empty_pool = emptied.append
    pool = torch.cuda.MemPool()
    number = pool.id
    with torch.cuda.use_mem_pool(pool):
        assert estimate.device.pool == number
    assert estimate.device.pool == (0, 0) and emptied == []
    del pool
    assert emptied == [number]


def test_graphed_callables_train(estimate):
    model = torch.nn.Linear(8, 8).to("cuda")
    sample = torch.randn(2, 8, device="cuda", requires_grad=True)
    graphed = torch.cuda.make_graphed_callables(model, (sample,))
    graphed(torch.randn(2, 8, device="cuda", requires_grad=True)).sum().backward()
    assert model.weight.grad is not None and model.weight.grad.shape == (8, 8)


def test_a_copied_parameter_is_cloned_alone(estimate, memory):
    model = torch.nn.Linear(8, 8, bias=False).to("cuda")
    memory.sizes.clear()
    copied = copy.deepcopy(model)
    assert memory.sizes == [256]
    assert isinstance(copied.weight, torch.nn.Parameter) and copied.weight is not model.weight


def test_gradients_are_clipped_by_one_kernel(estimate):
    model = torch.nn.Linear(8, 8).to("cuda")
    model(torch.randn(2, 8, device="cuda")).sum().backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    assert "_foreach_norm" in [op.name for op in estimate.mode.operations]


def test_an_operation_without_a_shape_is_one_sentence_with_the_line(estimate):
    with torch.library._scoped_library("estimate_test", "FRAGMENT") as library:
        library.define("unknown(Tensor x) -> Tensor")
        library.impl("unknown", lambda x: x, "CUDA")
        line = test_an_operation_without_a_shape_is_one_sentence_with_the_line.__code__
        with pytest.raises(CannotEstimate) as raised:
            torch.ops.estimate_test.unknown(torch.randn(3, device="cuda"))
    assert raised.value.line.number == line.co_firstlineno + 6
    assert "estimate_test::unknown" in str(raised.value)
    assert "register_fake" in str(raised.value)


def test_quantities_can_be_printed(estimate):
    loss = torch.randn(100_000, device="cuda").mean()
    assert f"{loss:.2f}" == "0.50"
    assert "cuda:0" in str(torch.randn(3, device="cuda"))
