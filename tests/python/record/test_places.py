"""Addresses of parameters and gradients, read from torch's own objects as this torch has them."""

from __future__ import annotations

from typing import Any

import pytest
from gpumemprof import _core
from gpumemprof.hooks.watcher import _validate_tensors
from gpumemprof.torch_calls.tensors import expected_tensors, plain_kinds

torch = pytest.importorskip("torch")

SAME = _core.PlaceChange.none
GRADIENTS_MOVED = _core.PlaceChange.gradients_moved
ASK_TORCH = _core.PlaceChange.other


@pytest.fixture(autouse=True)
def proven() -> None:
    _core.capture_validate_tensors(expected_tensors())


class Optimizer:
    def __init__(self, *tensors: Any) -> None:
        self.groups = [{"params": list(tensors)}]
        self.places = _core.TensorPlaces()

    def read(self) -> _core.PlaceChange:
        return self.places.read(self.groups, plain_kinds())


def parameter(size: int = 4) -> Any:
    return torch.nn.Parameter(torch.ones(size))


def test_this_torch_is_read_without_asking_it() -> None:
    optimizer = Optimizer(parameter(), parameter())
    assert optimizer.read() == ASK_TORCH  # the first time
    assert optimizer.read() == SAME


def test_proving_allocates_nothing_that_a_recording_would_show(tmp_path: Any) -> None:
    import gpumemprof

    path = tmp_path / "run.gmp"
    _validate_tensors.cache_clear()
    with gpumemprof.record(path, cpu=True):
        kept = torch.empty(1000)
    peak = gpumemprof.load(path).devices[0].peak
    assert peak.allocated_bytes == kept.untyped_storage().nbytes()


def test_gradients_that_moved_are_told_from_those_that_stayed() -> None:
    optimizer = Optimizer(parameter(), parameter())
    for tensor in optimizer.groups[0]["params"]:
        tensor.grad = torch.ones(4)
    optimizer.read()
    assert optimizer.read() == SAME
    kept = optimizer.groups[0]["params"][0].grad
    optimizer.groups[0]["params"][0].grad = torch.ones(4)
    assert optimizer.read() == GRADIENTS_MOVED
    assert optimizer.places.gradient_count() == 2
    del kept


def frozen() -> Any:
    return torch.nn.Parameter(torch.ones(4), requires_grad=False)


def test_a_frozen_parameter_has_no_gradient() -> None:
    optimizer = Optimizer(frozen(), parameter())
    optimizer.read()
    assert optimizer.read() == SAME
    assert optimizer.places.gradient_count() == 0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_types_of_number_are_read_the_same(dtype: Any) -> None:
    tensor = torch.nn.Parameter(torch.ones(4, dtype=dtype))
    tensor.grad = torch.ones(4, dtype=dtype)
    optimizer = Optimizer(tensor)
    optimizer.read()
    assert optimizer.read() == SAME


def new_data(tensor: Any) -> Any:
    before = tensor.data
    tensor.data = torch.zeros(4)
    return before


def sparse_gradient(tensor: Any) -> None:
    tensor.grad = torch.sparse_coo_tensor(torch.tensor([[0]]), torch.ones(1), (4,))


def first_gradient(tensor: Any) -> None:
    tensor.grad = torch.ones(4)


@pytest.mark.parametrize("change", [new_data, sparse_gradient, first_gradient])
def test_what_addresses_do_not_tell_is_asked_of_torch(change: Any) -> None:
    tensor = parameter()
    optimizer = Optimizer(tensor)
    optimizer.read()
    assert optimizer.read() == SAME
    kept = change(tensor)
    assert optimizer.read() == ASK_TORCH
    del kept


def test_a_tensor_of_another_kind_is_asked_of_torch() -> None:
    class Wrapped(torch.Tensor):
        pass

    optimizer = Optimizer(torch.ones(4).as_subclass(Wrapped))
    assert [optimizer.read(), optimizer.read()] == [ASK_TORCH, ASK_TORCH]


def test_groups_that_are_no_groups_are_left_to_torch() -> None:
    optimizer = Optimizer()
    for groups in ([{}], [{"params": 1}], [3], [{"params": [None]}]):
        optimizer.groups = groups  # type: ignore[assignment]
        assert optimizer.read() == ASK_TORCH
