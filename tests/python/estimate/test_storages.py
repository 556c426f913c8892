"""Storages are allocated when they are created and freed when nothing refers to them."""

from __future__ import annotations

import copy
import threading

import pytest
import torch
from gpumemprof.estimate.engine.fake_mode import outside_modes


def test_a_tensor_takes_its_bytes_until_its_last_view_is_gone(estimate, memory):
    tensor = torch.empty(1000, device="cuda")
    view = tensor[10:20]
    assert memory.allocated_bytes == 4000
    del tensor
    assert memory.allocated_bytes == 4000
    del view
    assert memory.allocated_bytes == 0


def test_tensors_on_the_cpu_take_nothing(estimate, memory):
    tensor = torch.empty(1 << 40)
    assert tensor.sum().device.type == "cpu"
    assert memory.sizes == []


def test_a_module_moves_to_the_device_and_back(estimate, memory):
    model = torch.nn.Linear(10, 10).to("cuda")
    assert memory.allocated_bytes == 440
    model.cpu()
    assert memory.allocated_bytes == 0


def test_gradients_are_added_in_place_where_autograd_holds_the_last_reference(estimate, memory):
    weight = torch.ones(100, device="cuda", requires_grad=True)
    middle = weight * 2
    loss = (middle * 3 + middle * 4 + middle * 5).sum()
    memory.reset_peaks()
    before = memory.allocated_bytes
    loss.backward()
    # The gradient of each product, of which two live at once, and the scalar it starts from.
    assert memory.peak_allocated_bytes - before <= 2 * 400 + 4


def test_the_bias_of_a_linear_layer_is_added_in_place(estimate, memory):
    layer = torch.nn.Linear(64, 96, device="cuda")
    turned = torch.empty(50, 20, 64, device="cuda").transpose(0, 1)
    layer(turned)  # takes the workspaces, which stay
    before = len(memory.sizes)
    result = layer(turned)
    assert memory.sizes[before:].count(result.nbytes) == 1


def test_a_resized_storage_takes_its_new_size(estimate, memory):
    tensor = torch.empty(100, device="cuda")
    tensor.untyped_storage().resize_(0)
    assert memory.allocated_bytes == 0
    tensor.untyped_storage().resize_(400)
    assert memory.allocated_bytes == 400


def test_a_copy_of_a_model_takes_as_much_again(estimate, memory):
    model = torch.nn.Linear(8, 8, bias=False, device="cuda")
    average = copy.deepcopy(model)
    assert memory.allocated_bytes == 2 * 256
    assert average.weight.data_ptr() != model.weight.data_ptr()


def test_a_shallow_copy_takes_nothing(estimate, memory):
    tensor = torch.empty(100, device="cuda")
    assert copy.copy(tensor).data_ptr() == tensor.data_ptr()
    assert memory.allocated_bytes == 400


def test_flattened_weights_of_a_recurrent_network_are_one_block(estimate, memory):
    network = torch.nn.LSTM(8, 16).to("cuda")
    count = sum(each.numel() for each in network.parameters())
    assert sorted(memory.live.values()) == [count * 4]


def test_operations_of_a_subclass_are_seen_one_by_one(estimate, memory):
    class Scaled(torch.Tensor):
        @staticmethod
        def __new__(cls, data):
            return torch.Tensor._make_wrapper_subclass(
                cls, data.shape, dtype=data.dtype, device=data.device
            )

        def __init__(self, data):
            self.data_ = data

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            plain = [each.data_ if isinstance(each, Scaled) else each for each in args]
            return func(*plain, **(kwargs or {}))

    scaled = Scaled(torch.empty(100, device="cuda"))
    assert memory.allocated_bytes == 400
    result = scaled * 2
    assert memory.allocated_bytes == 800
    del result, scaled
    assert memory.allocated_bytes == 0


def test_threads_of_the_program_are_estimated(estimate, memory):
    found = []
    thread = threading.Thread(target=lambda: found.append(torch.empty(50, device="cuda")))
    thread.start()
    thread.join()
    assert memory.allocated_bytes == 200


def test_a_full_card_raises_what_torch_raises(estimate, memory):
    with pytest.raises(torch.OutOfMemoryError, match=r"Tried to allocate 2\.00 GiB"):
        torch.empty(1 << 29, device="cuda")
    assert torch.empty(10, device="cuda").numel() == 10


def test_checkpointed_layers_run_twice(estimate, memory):
    from torch.utils.checkpoint import checkpoint

    layer = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.Dropout(), torch.nn.ReLU())
    layer.to("cuda")
    data = torch.randn(4, 16, device="cuda", requires_grad=True)
    checkpoint(layer, data, use_reentrant=False).sum().backward()
    assert data.grad is not None and data.grad.device.type == "cuda"


def test_statistics_come_from_the_simulated_device(estimate, memory):
    tensor = torch.empty(1000, device="cuda")
    assert torch.cuda.memory_allocated() == 4000
    assert torch.cuda.max_memory_allocated() == 4000
    assert torch.cuda.memory_stats()["allocated_bytes.all.current"] == 4000
    assert torch.cuda.memory_stats()["num_ooms"] == 0
    assert torch.cuda.get_device_name() == "Test card"
    assert torch.cuda.mem_get_info() == ((1 << 30) - 4000, 1 << 30)
    del tensor


def test_data_that_is_exchanged_brings_its_device_and_bytes(estimate, memory):
    weight = torch.nn.Parameter(torch.zeros(100))
    weight.data = torch.empty(50, device="cuda")
    assert weight.device == torch.device("cuda:0")
    assert (weight * 2).device.type == "cuda"
    assert memory.allocated_bytes == 200


def test_new_tensors_have_the_default_type_of_the_moment(estimate):
    assert torch.empty(3, device="cuda").dtype == torch.float32
    torch.set_default_dtype(torch.bfloat16)
    try:
        assert torch.empty(3, device="cuda").dtype == torch.bfloat16
        assert (torch.arange(3, device="cuda") / 2).dtype == torch.bfloat16
    finally:
        torch.set_default_dtype(torch.float32)
    assert (torch.arange(3, device="cuda") / 2).dtype == torch.float32


def test_a_copy_that_nobody_waits_for_is_converted_on_the_device(estimate, memory):
    numbers = torch.zeros(100)
    for options, taken in (
        ({}, [200]),
        ({"non_blocking": True}, [200, 400]),
        ({"non_blocking": True, "dtype": torch.float32}, [400]),
    ):
        memory.sizes.clear()
        numbers.to("cuda", **{"dtype": torch.float16, **options})
        assert memory.sizes == taken


def test_a_part_of_a_tensor_is_gathered_before_it_is_sent_to_the_host(estimate, memory):
    table = torch.empty(10, 30, device="cuda")
    memory.sizes.clear()
    table.t().cpu()
    assert memory.sizes == []
    table[:, :5].cpu()
    assert memory.sizes == [200]


def test_a_real_tensor_on_the_host_can_be_copied_with_what_holds_it(estimate):
    with outside_modes():
        mask = torch.arange(6.0).reshape(2, 3)
        row = mask[1]
    copied = copy.deepcopy({"mask": mask, "row": row})
    assert type(copied["mask"]) is torch.Tensor
    assert copied["mask"].tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    assert copied["mask"].data_ptr() != mask.data_ptr()
    assert copied["row"].untyped_storage().data_ptr() == copied["mask"].data_ptr()
