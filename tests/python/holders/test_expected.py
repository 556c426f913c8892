"""``expect_freed``: who still holds something that the program is done with."""

# ruff: noqa: F841 - variables that hold something are what is tested
from __future__ import annotations

import gc
import warnings
import weakref
from typing import Any

import gpumemprof
import pytest
import torch


def test_the_variable_of_the_caller_does_not_count() -> None:
    outputs = torch.zeros(100)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = gpumemprof.expect_freed(outputs, "after eval")
    assert result.held_by == []
    assert not result.is_freed
    del outputs
    assert result.is_freed and result.bytes == 0
    assert str(result.check()) == "after eval: no one else holds this Tensor"


def test_other_holders_count() -> None:
    history: dict[str, Any] = {}
    outputs = torch.zeros(256)
    history["last"] = [outputs]
    with pytest.warns(gpumemprof.LeakWarning) as caught:
        result = gpumemprof.expect_freed(outputs, "after eval")
    assert caught[0].filename == __file__
    text = str(caught[0].message)
    assert text.startswith(
        "after eval: this Tensor, 1.00 KiB, is still held by history['last'][0]  (local of "
    )
    assert [held.partition("  ")[0] for held in result.held_by] == ["history['last'][0]"]


def test_variables_of_other_functions_count() -> None:
    def inner(thing: Any) -> list[str]:
        with pytest.warns(gpumemprof.LeakWarning):
            return gpumemprof.expect_freed(thing).held_by

    outputs = torch.zeros(10)
    (held,) = inner(outputs)
    assert held.startswith("outputs  (local of test_variables_of_other_functions_count()")


def test_a_module_held_by_an_optimizer() -> None:
    model = torch.nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters())
    with pytest.warns(gpumemprof.LeakWarning):
        result = gpumemprof.expect_freed(model, "after eval")
    assert "optimizer.param_groups[0]['params'][0…1]" in result.held_by[0]
    del optimizer, model
    gc.collect()
    assert result.check().is_freed


def test_a_container_and_its_items() -> None:
    first, second = torch.zeros(4), torch.zeros(4)
    batch = {"x": first, "y": [second]}
    kept = [second]
    with pytest.warns(gpumemprof.LeakWarning):
        result = gpumemprof.expect_freed(batch)
    # `first` names an item of the container; `second` is deeper, and so is a holder.
    found = sorted(held.partition("  ")[0] for held in result.held_by)
    assert found == ["kept[0]", "second"]


def test_a_view_elsewhere_holds_the_memory() -> None:
    outputs = torch.zeros(1000)
    row = [outputs[3:4]]
    with pytest.warns(gpumemprof.LeakWarning, match=r"held by row\[0\]"):
        gpumemprof.expect_freed(outputs)


def test_a_graph_holds_the_memory() -> None:
    batch = torch.randn(4, 8)
    loss = torch.nn.Linear(8, 8)(batch).sum()
    with pytest.warns(gpumemprof.LeakWarning, match="loss.grad_fn → SumBackward0 → Addmm"):
        gpumemprof.expect_freed(batch)


def test_later_every_name_counts() -> None:
    outputs = torch.zeros(10)
    result = gpumemprof.expect_freed(outputs, now=False)
    with pytest.warns(gpumemprof.LeakWarning, match="held by outputs"):
        result.check()
    del outputs
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert result.check().held_by == []


def test_the_end_of_a_block_looks() -> None:
    outputs = torch.zeros(10)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with gpumemprof.expect_freed(outputs, now=False) as result:
            del outputs
        assert result.is_freed
    again = torch.zeros(10)
    with (
        pytest.warns(gpumemprof.LeakWarning, match="held by again"),
        gpumemprof.expect_freed(again, now=False),
    ):
        pass


def test_an_error_in_the_block_is_passed_on() -> None:
    outputs = torch.zeros(10)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(KeyError), gpumemprof.expect_freed(outputs, now=False):
            raise KeyError


def test_nothing_is_kept_alive() -> None:
    class Thing:
        pass

    thing = Thing()
    thing.values = [torch.zeros(5)]  # type: ignore[attr-defined]
    references = [weakref.ref(thing), weakref.ref(thing.values[0])]  # type: ignore[attr-defined]
    result = gpumemprof.expect_freed(thing)
    del thing
    assert [reference() for reference in references] == [None, None]
    assert result.is_freed


def test_an_object_without_tensors() -> None:
    class Cache:
        pass

    cache = Cache()
    registry = [cache]
    with pytest.warns(gpumemprof.LeakWarning, match=r"this \S*Cache is still held by registry"):
        gpumemprof.expect_freed(cache, "at the end")


def test_a_cycle_is_said_when_only_the_collector_frees_it() -> None:
    class Node:
        pass

    gc.disable()
    try:
        node: Any = Node()
        node.itself = node
        node.values = torch.zeros(7)
        result = gpumemprof.expect_freed(node, now=False)
        del node
        with pytest.warns(gpumemprof.LeakWarning, match="reference cycle"):
            result.check()
    finally:
        gc.enable()
    gc.collect()
    assert result.is_freed
