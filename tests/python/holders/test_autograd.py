"""What autograd's graph holds: Python's garbage collector sees none of it."""

# ruff: noqa: F841 - variables that hold something are what is tested
from __future__ import annotations

import gc
from typing import Any

import torch
from holder_search import find_holders, make, place, texts
from torch.utils.checkpoint import checkpoint


def _step(model: Any, places: list[tuple[int, int]]) -> Any:
    batch = torch.randn(16, 8)
    places.append(place(batch))
    return (model(batch) ** 2).mean()


def test_a_loss_holds_its_inputs() -> None:
    places: list[tuple[int, int]] = []
    model = torch.nn.Linear(8, 8)
    losses = [_step(model, places) for _ in range(100)]
    expected = "losses[0…99].grad_fn → MeanBackward0 → PowBackward0 → AddmmBackward0._saved_mat1"
    assert texts(places) == [expected]
    losses.clear()
    assert texts(places) == []


def test_an_intermediate_result_that_python_never_saw() -> None:
    places: list[tuple[int, int]] = []
    source = torch.ones(64, requires_grad=True)
    total = torch.zeros(())
    for _ in range(5):
        total = total + source.exp().sum()
    node = total.grad_fn
    kept = node.next_functions[1][0].next_functions[0][0]._raw_saved_result  # type: ignore
    places.append(place(kept.data))
    del kept, node
    assert texts(places) == [
        "total.grad_fn → AddBackward0 → SumBackward0 → ExpBackward0._saved_result"
    ]


def test_a_long_graph_is_shown_by_its_ends() -> None:
    places: list[tuple[int, int]] = []
    source = make(places).requires_grad_()
    hidden = source * 1
    del source
    for _ in range(5000):
        hidden = hidden.sin()
    hidden = hidden.sum()
    (text,) = texts(places)
    assert (
        text
        == "hidden.grad_fn → SumBackward0 → SinBackward0 → … 5,000 more … → AccumulateGrad.variable"
    )


def test_a_checkpoint_is_not_recomputed() -> None:
    calls = []

    class Counting(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.Linear(8, 8)

        def forward(self, batch: Any) -> Any:
            calls.append(1)
            return self.inner(batch).relu()

    for is_reentrant in (False, True):
        places: list[tuple[int, int]] = []
        model = Counting()
        batch = torch.randn(16, 8, requires_grad=True)
        places.append(place(batch))
        loss = checkpoint(model, batch, use_reentrant=is_reentrant).sum()
        del batch
        calls.clear()
        found = texts(places)
        assert calls == []
        assert found and found[0].startswith("loss.grad_fn → SumBackward0"), found
        loss.backward()
        assert calls == [1]


def test_hooks_that_pack_are_not_run() -> None:
    places: list[tuple[int, int]] = []
    unpacked = []

    def pack(tensor: Any) -> Any:
        return [tensor.clone() if not places else tensor]

    def unpack(packed: Any) -> Any:
        unpacked.append(1)
        return packed[0]

    batch = make(places)
    weight = torch.ones(256, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        loss = (weight * batch).sum()
    del batch
    assert texts(places) == ["loss.grad_fn → SumBackward0 → MulBackward0._saved_other[0]"]
    assert unpacked == []


class _Keeping(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: Any, how: str, places: Any) -> Any:
        kept = make(places)
        if how == "saved":
            ctx.save_for_backward(kept)
        else:
            ctx.scratch = {"mask": kept}
        return value * 2

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients[0] * 2, None, None


def test_a_function_of_the_program_saves_for_backward() -> None:
    places: list[tuple[int, int]] = []
    value = torch.ones(4, requires_grad=True)
    out = _Keeping.apply(value, "saved", places).sum()
    assert texts(places) == ["out.grad_fn → SumBackward0 → _KeepingBackward._saved_tensors[0]"]


def test_an_attribute_of_the_context_of_a_function() -> None:
    places: list[tuple[int, int]] = []
    value = torch.ones(4, requires_grad=True)
    out = [_Keeping.apply(value, "attribute", places).sum()]
    assert texts(places) == ["out[0].grad_fn → SumBackward0 → _KeepingBackward.scratch['mask']"]


class _Remembering(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: Any, contexts: list[Any]) -> Any:
        ctx.save_for_backward(value)
        contexts.append(ctx)
        return value * 2

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients[0] * 2, None


def test_a_context_that_is_kept_holds_what_it_saved_and_the_graph_behind_it() -> None:
    places: list[tuple[int, int]] = []
    behind: list[tuple[int, int]] = []
    contexts: list[Any] = []
    weight = torch.ones(64, requires_grad=True)
    for _ in range(10):
        batch = make(behind, 64)
        inner = batch * weight
        places.append(place(inner))
        _Remembering.apply(inner, contexts)
    del batch, inner
    assert texts(places) == ["contexts[0…9]._saved_tensors[0]"]
    assert texts(behind) == ["contexts[0…9] → MulBackward0._saved_self"]


def test_a_node_that_is_kept() -> None:
    places: list[tuple[int, int]] = []
    weight = torch.ones(64, requires_grad=True)
    nodes = [(make(places, 64) * weight).sum().grad_fn for _ in range(10)]
    assert texts(places) == ["nodes[0…9] → MulBackward0._saved_self"]


def test_a_state_that_is_never_detached_also_when_it_is_searched_again() -> None:
    places: list[tuple[int, int]] = []
    cell = torch.nn.GRUCell(8, 8)
    state = torch.zeros(4, 8)
    for _ in range(40):
        state = cell(make(places, 32).view(4, 8), state)
    # A search gives the tensors it looks at Python objects, which no name leads to.
    for _ in range(2):
        first = find_holders(places)
        assert (first.held_blocks, first.blocks) == (40, 40)
        text = first.text()
        assert text.startswith("state.grad_fn → AddBackward0 → "), text
        assert " more … → AddmmBackward0._saved_mat1" in text
        assert " to " in text  # however far back
        assert first.chains[0].blocks > 30


def test_a_cycle_through_the_graph() -> None:
    places: list[tuple[int, int]] = []

    class Cyclic(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, value: Any) -> Any:
            ctx.kept = value * 2
            places.append(place(ctx.kept))
            return ctx.kept

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            return gradients[0]

    gc.disable()
    try:
        Cyclic.apply(torch.ones(8, requires_grad=True))
        result = find_holders(places)
        assert result.chains == []
        assert result.cycle is not None
        assert "kept" in result.cycle and "grad_fn" in result.cycle
    finally:
        gc.enable()
    gc.collect()


def test_a_hook_on_a_tensor() -> None:
    places: list[tuple[int, int]] = []
    weight = torch.ones(4, requires_grad=True)

    def install(kept: Any) -> None:
        weight.register_hook(lambda gradient: kept[0] if False else gradient)

    install([make(places)])
    text, by_function = texts(places)
    # The function that installed it refers to the weight, too.
    assert by_function.startswith("install → closure variable 'weight._backward_hooks[")
    assert text.startswith("weight._backward_hooks[")
    assert text.endswith("closure variable 'kept[0]' of <lambda>()")


def test_a_hook_on_a_node() -> None:
    places: list[tuple[int, int]] = []
    out = torch.ones(4, requires_grad=True).exp().sum()

    def install(kept: Any) -> None:
        out.grad_fn.next_functions[0][0].register_hook(lambda *_: kept)  # type: ignore

    install(make(places))
    (text,) = texts(places)
    assert text.startswith("a hook on a node of autograd's graph")
    assert text.endswith("closure variable 'kept' of <lambda>()")


def test_hooks_of_a_module_in_a_cycle_are_not_those_of_a_node() -> None:
    places: list[tuple[int, int]] = []

    class Hooked(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.Identity()
            self.inner.register_forward_hook(self.hook)
            self.buffer = make(places)

        def hook(self, *_: Any) -> None:
            pass

    gc.disable()
    try:
        Hooked()
        result = find_holders(places)
        assert result.chains == []
        assert result.cycle is not None
        assert result.cycle.startswith("Identity._forward_hooks["), result.cycle
    finally:
        gc.enable()
    gc.collect()


def test_a_hook_on_a_module() -> None:
    places: list[tuple[int, int]] = []
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())

    def watch(layer: Any) -> None:
        seen = []

        def hook(module: Any, inputs: Any, output: Any) -> None:
            seen.append(output)

        layer.register_forward_hook(hook)

    watch(model[1])
    places.append(place(model(torch.randn(16, 8))))
    (text,) = texts(places)
    assert text.startswith("model[1]._forward_hooks[")
    assert text.endswith("closure variable 'seen[0]' of hook()")


def test_a_gradient() -> None:
    places: list[tuple[int, int]] = []
    model = torch.nn.Linear(8, 8)
    model(torch.randn(16, 8)).sum().backward()
    assert model.weight.grad is not None
    places.append(place(model.weight.grad))
    assert texts(places) == ["model.weight.grad"]


def test_a_gradient_with_a_graph() -> None:
    places: list[tuple[int, int]] = []
    model = torch.nn.Linear(8, 8)
    batch = torch.randn(16, 8)
    places.append(place(batch))
    (model(batch) ** 2).mean().backward(create_graph=True)
    del batch
    (text,) = texts(places)[:1]
    assert text.startswith("model.weight.grad.grad_fn → "), text


def test_the_state_of_an_optimizer() -> None:
    model = torch.nn.Linear(8, 8)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.randn(16, 8)).sum().backward()
    optimizer.step()
    state = optimizer.state[model.weight]["exp_avg"]
    places = [place(state)]
    del state
    assert texts(places) == ["optimizer.state[<Parameter>]['exp_avg']"]


def test_a_wrapped_tensor() -> None:
    from torch.testing._internal.two_tensor import TwoTensor

    places: list[tuple[int, int]] = []
    kept = TwoTensor(make(places), torch.zeros(256))
    assert texts(places) == ["kept.a"]


def test_a_sparse_tensor() -> None:
    places: list[tuple[int, int]] = []
    values = make(places)
    kept = torch.sparse_coo_tensor(torch.arange(256).unsqueeze(0), values, (256,))
    places[0] = place(kept._values())
    del values
    assert texts(places) == ["kept"]
