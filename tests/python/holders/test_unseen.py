"""Holders that Python's garbage collector does not know, and what is said of them."""

from __future__ import annotations

import atexit
import functools
import weakref
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from gpumemprof.holders.search import find_holders  # noqa: E402 - torch comes first


def _places(tensors: list[Any]) -> list[tuple[int, int]]:
    return [(tensor.data_ptr(), tensor.nbytes) for tensor in tensors]


def test_arrays_of_numpy_lead_to_their_tensors() -> None:
    numpy = pytest.importorskip("numpy")
    tensors = [torch.ones(64) for _ in range(5)]
    places = _places(tensors)
    frames = [tensor.numpy() for tensor in tensors]
    views = {"rows": [torch.ones(8, 8).numpy()[2:4] for _ in range(2)]}
    places += [(view.base.base.data_ptr(), 256) for view in views["rows"]]
    assert type(views["rows"][0].base) is numpy.ndarray
    del tensors
    texts = [str(chain) for chain in find_holders(places).chains]
    assert any(text.startswith("frames[0…4].base") for text in texts), texts
    assert any(text.startswith("views['rows'][0…1].base.base") for text in texts), texts
    assert len(frames) == 5


def _ignore(tensor: Any) -> None:
    del tensor


def test_callbacks_of_atexit_are_suspected() -> None:
    kept = functools.partial(_ignore, torch.ones(64))
    places = _places([kept.args[0]])
    atexit.register(kept)
    try:
        del kept
        assert "callbacks of atexit" in find_holders(places).text()
    finally:
        atexit.unregister(_ignore)


def test_a_name_that_holds_little_comes_after_one_that_holds_all() -> None:
    owner = type("Owner", (), {})()
    tensors = [torch.ones(64) for _ in range(9)]
    places = _places(tensors)
    finalizers = [weakref.finalize(owner, _ignore, tensor) for tensor in tensors]
    newest = tensors[-1]
    del tensors, finalizers
    chains = [str(chain) for chain in find_holders(places).chains]
    assert "weakref.finalize._registry" in chains[0], chains
    assert any(chain.startswith("newest") for chain in chains), chains
    del owner, newest


def test_a_cycle_begins_with_a_function_or_an_object() -> None:
    def make() -> tuple[int, int]:
        tensor = torch.ones(64)

        def again() -> Any:
            return tensor, again

        return _places([again()[0]])[0]

    import gc

    was_on = gc.isenabled()
    gc.disable()
    try:
        text = find_holders([make()]).text()
    finally:
        if was_on:
            gc.enable()
        gc.collect()
    assert "garbage collector frees: again() →" in text
