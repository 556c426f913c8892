"""Nothing of the program runs during a search, whatever its objects are."""

# ruff: noqa: F841 - variables that hold something are what is tested
from __future__ import annotations

import gc
import sys
import threading
import weakref
from typing import Any

import torch
from holder_search import find_holders, holders, make, place, texts


class Ran(BaseException):
    """Code of the program was run."""


class Hostile:
    """Fails at every question that Python lets a class answer itself."""

    armed = False

    def __init__(self, tensor: Any) -> None:
        object.__setattr__(self, "tensor", tensor)

    def _answer(self, *_: Any) -> Any:
        if Hostile.armed:
            raise Ran
        return 1

    def __getattribute__(self, name: str) -> Any:
        if Hostile.armed:
            raise Ran
        return object.__getattribute__(self, name)

    __getattr__ = __eq__ = __ne__ = __len__ = __iter__ = __bool__ = _answer
    __contains__ = __getitem__ = __call__ = __dir__ = __sizeof__ = _answer

    def __hash__(self) -> int:
        if Hostile.armed:
            raise Ran
        return 1

    def __repr__(self) -> str:
        if Hostile.armed:
            raise Ran
        return "hostile"

    __str__ = __repr__

    @property
    def __class__(self) -> Any:
        if Hostile.armed:
            raise Ran
        return Hostile

    @property
    def __dict__(self) -> Any:  # type: ignore[override]
        raise Ran


class HostileDict(dict):  # type: ignore[type-arg]
    __iter__ = items = keys = values = __getitem__ = get = __len__ = Hostile._answer  # type: ignore


class HostileList(list):  # type: ignore[type-arg]
    __iter__ = __getitem__ = __len__ = index = Hostile._answer  # type: ignore[assignment]


class HostileMeta(type):
    @property
    def __mro__(cls) -> Any:  # type: ignore[override]
        if Hostile.armed:
            raise Ran
        return type.__dict__["__mro__"].__get__(cls)

    def __getattribute__(cls, name: str) -> Any:
        if Hostile.armed:
            raise Ran
        return type.__getattribute__(cls, name)

    def __instancecheck__(cls, instance: Any) -> bool:
        raise Ran

    def __subclasscheck__(cls, other: Any) -> bool:
        raise Ran


class WithMeta(metaclass=HostileMeta):
    pass


def _ask(places: list[tuple[int, int]]) -> list[str]:
    Hostile.armed = True
    try:
        return texts(places)
    finally:
        Hostile.armed = False


def test_an_instance_that_answers_nothing() -> None:
    places: list[tuple[int, int]] = []
    kept = Hostile([make(places)])
    assert _ask(places) == ["kept.tensor[0]"]
    del kept


def test_containers_that_answer_nothing() -> None:
    places: list[tuple[int, int]] = []
    kept = HostileDict(a=HostileList([make(places)]))
    assert _ask(places) == ["kept['a'][0]"]
    del kept


def test_keys_that_cannot_be_compared() -> None:
    places: list[tuple[int, int]] = []
    kept = {Hostile(None): make(places)}
    assert _ask(places) == ["kept[<Hostile>]"]
    del kept


def test_a_class_whose_metaclass_answers_nothing() -> None:
    places: list[tuple[int, int]] = []
    kept = WithMeta()
    object.__setattr__(kept, "tensor", make(places))
    assert _ask(places) == ["kept.tensor"]
    WithMeta.shared = [kept]  # type: ignore[attr-defined]
    del kept
    assert _ask(places) == ["test_hostile.WithMeta.shared[0].tensor"]
    del WithMeta.shared  # type: ignore[attr-defined]


def test_a_tensor_subclass_whose_functions_are_overridden() -> None:
    class Loud(torch.Tensor):
        @classmethod
        def __torch_function__(cls, *args: Any, **kwargs: Any) -> Any:
            if Hostile.armed:
                raise Ran
            return super().__torch_function__(*args, **kwargs)

    places: list[tuple[int, int]] = []
    kept = [make(places).as_subclass(Loud)]
    assert _ask(places) == ["kept[0]"]
    del kept


def test_a_weak_proxy_is_not_asked() -> None:
    places: list[tuple[int, int]] = []
    kept = Hostile(make(places))
    proxy = weakref.proxy(kept)
    assert _ask(places) == ["kept.tensor"]
    del proxy


def test_no_tensor_is_kept_alive() -> None:
    places: list[tuple[int, int]] = []
    tensors = [make(places) for _ in range(10)]
    model = torch.nn.Linear(8, 8)
    losses = [model(torch.randn(4, 8)).sum() for _ in range(3)]
    watched = [weakref.ref(tensor) for tensor in (*tensors, *losses)]
    result = holders(places)
    assert result.held_blocks == 10
    del tensors, losses
    assert [reference for reference in watched if reference() is not None] == []


def test_variables_that_are_dropped_later_are_not_kept() -> None:
    """Asking a frame for its locals would make it keep them."""
    places: list[tuple[int, int]] = []
    first = make(places)
    reference = weakref.ref(first)
    assert texts(places) == ["first"]
    del first
    assert reference() is None


def test_a_search_leaves_no_garbage_that_keeps_variables() -> None:
    """The frames of a search and of its callers, if they came to hold each other."""
    places: list[tuple[int, int]] = []

    def work() -> Any:
        tensor = make(places)
        assert texts(places) == ["tensor"]
        return weakref.ref(tensor)

    gc.disable()
    try:
        assert work()() is None
    finally:
        gc.enable()


def test_the_classes_of_the_program_are_not_kept_alive() -> None:
    places: list[tuple[int, int]] = []

    class Own(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, value: Any) -> Any:
            ctx.kept = make(places)
            return value * 2

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            return gradients[0] * 2

    out = Own.apply(torch.ones(4, requires_grad=True))
    assert texts(places) == ["out.grad_fn → OwnBackward.kept"]
    reference = weakref.ref(Own)
    del Own, out
    gc.collect()
    assert reference() is None


def test_the_settings_of_the_garbage_collector_are_left_alone() -> None:
    places: list[tuple[int, int]] = []
    kept = make(places)
    before = (gc.isenabled(), gc.get_threshold(), gc.get_debug(), len(gc.garbage))
    collections = [0]
    gc.callbacks.append(
        lambda phase, info: collections.append(info["generation"]) if phase == "start" else None
    )
    gc.disable()
    try:
        assert texts(places) == ["kept"]
    finally:
        gc.callbacks.pop()
        if before[0]:
            gc.enable()
    assert collections == [0]
    assert before == (gc.isenabled(), gc.get_threshold(), gc.get_debug(), len(gc.garbage))


def test_a_huge_container() -> None:
    places: list[tuple[int, int]] = []
    kept: list[Any] = [float(number) for number in range(1_000_000)]
    kept.append({number: number for number in range(200_000)})
    kept[-1]["last"] = make(places)
    assert texts(places) == ["kept[1000000]['last']"]


def test_a_deep_recursion() -> None:
    places: list[tuple[int, int]] = []

    def descend(depth: int) -> list[str]:
        if depth == 0:
            kept = make(places)
            found = texts(places)
            del kept
            return found
        return descend(depth - 1)

    assert descend(sys.getrecursionlimit() // 2) == ["kept"]


def test_more_levels_than_are_followed() -> None:
    places: list[tuple[int, int]] = []
    kept: Any = make(places)
    for _ in range(1000):
        kept = [kept]
    result = holders(places)
    assert result.chains == [] and not result.is_whole
    while isinstance(kept, list):
        kept = kept[0]


def test_threads_that_change_everything_meanwhile() -> None:
    places: list[tuple[int, int]] = []
    kept = {"stable": [make(places)]}
    is_over = False
    shared: dict[int, Any] = {}
    errors: list[BaseException] = []

    def churn(start: int) -> None:
        number = start
        try:
            while not is_over:
                number += 1
                shared[number % 997] = [torch.zeros(4), {"a": torch.ones(2)}]
                shared.pop((number * 7) % 997, None)
                local = torch.zeros(8, requires_grad=True).exp().sum()
                del local
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=churn, args=(number * 1000,)) for number in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(5):
            assert "kept['stable'][0]" in texts(places)
    finally:
        is_over = True
        for thread in threads:
            thread.join()
    assert errors == []


def test_memory_that_was_freed_before_the_search() -> None:
    places: list[tuple[int, int]] = []
    make(places)
    result = find_holders(places)
    assert result.chains == [] and result.held_blocks == 0


def test_own_tables_are_no_holders() -> None:
    places: list[tuple[int, int]] = []
    kept = [make(places) for _ in range(3)]
    for _ in range(3):
        assert texts(places) == ["kept[0…2]"]
    assert place(kept[0]) == places[0]
