"""Programs with a default device: the estimate's own tensors are not made on it."""

from __future__ import annotations

import pytest
import torch
from torch.nn.utils import rnn
from torch.overrides import TorchFunctionMode
from torch.utils.checkpoint import checkpoint


@pytest.fixture
def default_device(estimate):
    torch.set_default_device("cuda")
    yield
    torch.set_default_device(None)


def test_states_of_random_numbers_are_on_the_cpu(default_device, memory):
    (state,) = torch.cuda.get_rng_state_all()
    assert (state.device.type, torch.cuda.get_rng_state().device.type) == ("cpu", "cpu")
    torch.cuda.set_rng_state(state)
    with torch.random.fork_rng():
        assert torch.rand(3).is_cuda
    assert memory.sizes == [12]


@pytest.mark.parametrize("is_reentrant", [False, True])
def test_checkpointed_layers_run_twice(default_device, memory, is_reentrant):
    layer = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.Dropout(), torch.nn.ReLU())
    data = torch.randn(4, 16, requires_grad=True)
    kept = []
    for _ in range(2):
        loss = checkpoint(layer, data, use_reentrant=is_reentrant).sum()
        torch.autograd.backward([loss])
        del loss
        kept.append(memory.allocated_bytes)
    assert data.grad.is_cuda
    assert kept[0] == kept[1]


def _sorted(data):
    return data.sort().values


def _products(data):
    return data.cumprod(0)


def _places(data):
    return data[torch.tensor([1, 2])]


def _selected(data):
    return data[data > 0]


@pytest.mark.parametrize("function", [_sorted, _products, _places, _selected])
def test_values_are_followed_where_the_default_device_is_active(default_device, function):
    """As in what autograd's engine computes, if the program calls it without torch's functions."""
    data = torch.randn(8, requires_grad=True)
    loss = function(data).sum()
    engine = torch.autograd.Variable._execution_engine
    engine.run_backward(
        (loss,), (torch.ones(()),), False, False, (), allow_unreachable=True, accumulate_grad=True
    )
    assert data.grad.is_cuda and data.grad.shape == data.shape


def test_lengths_of_sequences_stay_on_the_cpu(default_device):
    data = torch.randn(2, 5, 3)
    lengths = torch.tensor([5, 2], device="cpu")
    packed = rnn.pack_padded_sequence(data, lengths, batch_first=True)
    padded, found = rnn.pad_packed_sequence(packed, batch_first=True)
    assert padded.is_cuda
    assert found.device.type == "cpu" and found.tolist() == [5, 2]


class _Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        return torch.tensor([index, index])


def test_a_data_set_makes_its_tensors_there(default_device):
    first, second = torch.utils.data.DataLoader(_Numbers(), batch_size=2)
    assert first.is_cuda and second.is_cuda


class _Calls(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.names.append(func.__name__)
        return func(*args, **(kwargs or {}))


def test_a_mode_of_the_program_sees_only_what_the_program_calls(estimate):
    with _Calls() as calls:
        torch.cuda.get_rng_state()
    assert calls.names == []
