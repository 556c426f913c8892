"""Every way in which Python holds a tensor, and how it is written."""

from __future__ import annotations

import asyncio
import collections
import contextvars
import dataclasses
import functools
import sys
import threading
import types
import weakref
from typing import Any

import pytest
import torch
from gpumemprof.holders.chain import Link
from gpumemprof.holders.cycles import shown_cycle
from holder_search import holders, make, notes, place, texts

kept_in_module: list[Any] = []


class Slotted:
    __slots__ = ("__weakref__", "tensor")


class Plain:
    def __init__(self, tensor: Any = None) -> None:
        self.tensor = tensor


@dataclasses.dataclass
class Record:
    loss: Any
    step: int = 0


Pair = collections.namedtuple("Pair", "first second")


def test_a_local_variable() -> None:
    places: list[tuple[int, int]] = []
    kept = make(places)
    assert texts(places) == ["kept"]
    assert notes(places) == [
        f"local of test_a_local_variable(), test_kinds.py:{sys._getframe().f_lineno - 1}"
    ]
    del kept
    assert holders(places).chains == []


def test_a_global_of_a_module() -> None:
    places: list[tuple[int, int]] = []
    kept_in_module.append(make(places))
    assert texts(places) == ["test_kinds.kept_in_module[0]"]
    kept_in_module.clear()
    assert texts(places) == []


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda tensor: [0, tensor], "kept[1]"),
        (lambda tensor: (0, [tensor]), "kept[1][0]"),
        (lambda tensor: {"loss": tensor}, "kept['loss']"),
        (lambda tensor: {("a", 1): [tensor]}, "kept[('a', 1)][0]"),
        (lambda tensor: {Plain(): tensor}, "kept[<Plain>]"),
        (lambda tensor: {tensor: 1}, "kept → a key of the dict"),
        (lambda tensor: {tensor}, "kept → an element of the set"),
        (lambda tensor: frozenset([tensor]), "kept → an element of the set"),
        (lambda tensor: collections.deque([1, tensor]), "kept[1]"),
        (lambda tensor: collections.OrderedDict(a=tensor), "kept['a']"),
        (lambda tensor: collections.defaultdict(list, {3: [tensor]}), "kept[3][0]"),
        (lambda tensor: Pair(1, tensor), "kept.second"),
        (lambda tensor: Record(tensor), "kept.loss"),
        (lambda tensor: Plain(Plain([tensor])), "kept.tensor.tensor[0]"),
        (lambda tensor: types.SimpleNamespace(a=tensor), "kept.a"),
        (lambda tensor: functools.partial(print, tensor), "kept.args[0]"),
        (lambda tensor: functools.partial(print, end=tensor), "kept.keywords['end']"),
        (lambda tensor: Plain(tensor).__init__, "kept.__self__.tensor"),
        (lambda tensor: lambda: tensor, "kept → closure variable 'tensor' of <lambda>()"),
        (
            lambda tensor: lambda values=[tensor]: values,
            "kept → default argument 'values[0]' of <lambda>()",
        ),
        (
            lambda tensor: lambda *, values=tensor: values,
            "kept → default argument 'values' of <lambda>()",
        ),
        (lambda tensor: [[[[[[[[tensor]]]]]]]], "kept[0][0][0][0][0][0][0][0]"),
        (lambda tensor: tensor.view(2, -1), "kept"),
        (lambda tensor: [tensor[3:]], "kept[0]"),
        (lambda tensor: tensor.untyped_storage(), "kept"),
        (lambda tensor: torch.nn.Parameter(tensor), "kept"),
    ],
)
def test_a_way_of_holding(build: Any, expected: str) -> None:
    places: list[tuple[int, int]] = []
    kept = build(make(places))
    assert texts(places) == [expected]
    del kept
    assert texts(places) == []


def test_a_slot() -> None:
    places: list[tuple[int, int]] = []
    kept = Slotted()
    kept.tensor = make(places)
    assert texts(places) == ["kept.tensor"]


def test_a_class_attribute() -> None:
    places: list[tuple[int, int]] = []

    class Trainer:
        history: list[Any] = []  # noqa: RUF012

    Trainer.history.append(make(places))
    assert texts(places) == ["test_kinds.Trainer.history[0]"]
    Trainer.history.clear()


def test_an_attribute_of_a_function() -> None:
    places: list[tuple[int, int]] = []

    def measure() -> None:
        pass

    measure.seen = make(places)  # type: ignore[attr-defined]
    assert texts(places) == ["measure.seen"]


def test_a_cache() -> None:
    places: list[tuple[int, int]] = []

    @functools.lru_cache(maxsize=4)
    def bounded(number: int) -> Any:
        return make(places)

    @functools.cache
    def unbounded(number: int) -> Any:
        return make(places)

    bounded(1)
    assert texts(places) == ["bounded → a result kept by functools.lru_cache"]
    places.clear()
    unbounded(1)
    assert texts(places) == ["unbounded → a result kept by functools.cache"]


def test_a_suspended_generator() -> None:
    places: list[tuple[int, int]] = []

    def batches() -> Any:
        batch = make(places)
        yield 1
        yield batch

    source = batches()
    next(source)
    assert [text.split(" line")[0] for text in texts(places)] == ["source → generator batches()"]
    assert texts(places)[0].endswith(", local 'batch'")
    source.close()
    assert texts(places) == []


def test_a_suspended_coroutine() -> None:
    places: list[tuple[int, int]] = []

    @types.coroutine
    def pause() -> Any:
        yield

    async def work() -> None:
        out = [make(places)]
        await pause()
        del out

    running = work()
    running.send(None)
    assert texts(places)[0].startswith("running → coroutine work() line")
    assert texts(places)[0].endswith(", local 'out[0]'")
    running.close()


def _fail(places: list[tuple[int, int]]) -> None:
    out = make(places)
    raise ValueError(str(out.shape))


def test_an_exception_in_a_variable() -> None:
    places: list[tuple[int, int]] = []
    error = None
    try:
        _fail(places)
    except ValueError as caught:
        error = caught
    line = _fail.__code__.co_firstlineno + 2
    assert texts(places) == [
        f"exception in variable 'error' → traceback → frame _fail() line {line}, local 'out'"
    ]
    del error
    assert texts(places) == []


def test_the_exception_that_is_being_handled() -> None:
    places: list[tuple[int, int]] = []
    try:
        _fail(places)
    except ValueError:
        assert texts(places)[0].startswith("exception being handled → traceback → frame _fail()")
    assert texts(places) == []


def test_the_cause_of_an_exception() -> None:
    places: list[tuple[int, int]] = []
    errors = []
    try:
        try:
            _fail(places)
        except ValueError as caught:
            raise KeyError from caught
    except KeyError as caught:
        errors.append(caught)
    found = texts(places)
    assert found[0].startswith("errors[0] → its cause, an exception → traceback → frame _fail()")


def test_the_last_exception_of_a_session() -> None:
    places: list[tuple[int, int]] = []
    try:
        _fail(places)
    except ValueError as caught:
        sys.last_value = caught
    try:
        assert texts(places)[0].startswith("sys.last_value → traceback → frame _fail()")
    finally:
        del sys.last_value


def test_a_variable_of_another_thread() -> None:
    places: list[tuple[int, int]] = []
    is_ready, is_over = threading.Event(), threading.Event()

    def work() -> None:
        queue = [make(places)]
        is_ready.set()
        is_over.wait()
        queue.clear()

    thread = threading.Thread(target=work, name="prefetch")
    thread.start()
    is_ready.wait()
    assert texts(places) == ["queue[0]"]
    assert notes(places)[0].endswith("in thread 'prefetch'")
    is_over.set()
    thread.join()
    assert texts(places) == []


def test_a_thread_local() -> None:
    places: list[tuple[int, int]] = []
    state = threading.local()
    state.buffers = [make(places)]
    assert texts(places) == ["state.buffers[0]"]


def test_a_context_variable() -> None:
    places: list[tuple[int, int]] = []
    variable: contextvars.ContextVar[Any] = contextvars.ContextVar("current_batch")
    token = variable.set([make(places)])
    assert texts(places) == ["context variable 'current_batch'[0]"]
    variable.reset(token)


def test_a_weak_reference_holds_nothing() -> None:
    places: list[tuple[int, int]] = []
    kept = make(places)
    reference = weakref.ref(kept)
    table: Any = weakref.WeakValueDictionary({1: kept})
    assert texts(places) == ["kept"]
    del kept
    assert texts(places) == []
    assert reference() is None and not len(table)


def test_equal_chains_are_one() -> None:
    places: list[tuple[int, int]] = []
    history = [{"loss": make(places), "step": step} for step in range(413)]
    result = holders(places)
    assert [str(chain).partition("  ")[0] for chain in result.chains] == ["history[0…412]['loss']"]
    assert (result.blocks, result.held_blocks) == (50, 50)
    del history


def test_several_holders_are_all_named() -> None:
    places: list[tuple[int, int]] = []
    first = [make(places)]
    second = {"again": first[0]}
    assert sorted(texts(places)) == ["first[0]", "second['again']"]
    del second


def test_other_ways_to_the_same_container_come_last() -> None:
    places: list[tuple[int, int]] = []
    first = [make(places)]
    second = Plain(first)
    third = {"x": first[0]}
    assert texts(places) == ["first[0]", "third['x']", "second.tensor[0]"]
    del second, third


def test_numbers_as_keys_are_a_range() -> None:
    places: list[tuple[int, int]] = []
    log = {step: make(places) for step in range(5, 30)}
    assert texts(places) == ["log[5…29]"]
    del log


def test_a_reference_cycle_is_named() -> None:
    import gc

    places: list[tuple[int, int]] = []
    was_on = gc.isenabled()
    gc.disable()
    try:
        node = Plain()
        node.parent = node  # type: ignore[attr-defined]
        node.tensor = make(places)
        del node
        result = holders(places)
        assert result.chains == []
        assert result.cycle == "Plain.parent → Plain"
    finally:
        if was_on:
            gc.enable()
    gc.collect()
    assert holders(places).cycle is None


def test_a_cycle_is_named_also_while_a_variable_holds_the_newest() -> None:
    import gc

    places: list[tuple[int, int]] = []
    was_on = gc.isenabled()
    gc.disable()
    try:
        for _ in range(20):
            node = Plain()
            node.parent = node  # type: ignore[attr-defined]
            node.tensor = make(places)
        result = holders(places)
        assert [str(chain).partition("  (")[0] for chain in result.chains] == ["node.tensor"]
        assert result.text() == (
            "a reference cycle that only the garbage collector frees: Plain.parent → Plain"
        )
        one = holders(places[-1:])
        assert one.text().startswith("node.tensor")
    finally:
        if was_on:
            gc.enable()
    del node
    gc.collect()


def test_a_cycle_of_an_exception_begins_with_its_class() -> None:
    way = [(ValueError(), [Link("arrow", "traceback")])]
    assert shown_cycle(way) == "ValueError → traceback → ValueError"


def test_a_tensor_as_attribute_of_a_tensor() -> None:
    places: list[tuple[int, int]] = []
    kept = torch.zeros(3)
    kept.extra = make(places)  # type: ignore[attr-defined]
    assert texts(places) == ["kept.extra"]


def test_parts_of_modules_read_like_attributes() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8))
    weight, mean = place(model[0].weight), place(model[1].running_mean)
    assert texts([weight]) == ["model[0].weight"]
    assert texts([mean]) == ["model[1].running_mean"]


def test_the_result_of_an_asyncio_task() -> None:
    places: list[tuple[int, int]] = []
    tasks: list[Any] = []

    async def answer() -> Any:
        return make(places)

    async def serve() -> None:
        for _ in range(3):
            tasks.append(asyncio.create_task(answer()))
            await tasks[-1]

    asyncio.run(serve())
    assert texts(places)[0] == "tasks[0…2] → Task"


def test_a_linked_list() -> None:
    places: list[tuple[int, int]] = []
    state = Plain((make(places), None))
    for _ in range(6):
        following = Plain()
        following.before = state  # type: ignore[attr-defined]
        state = following
    del following
    assert texts(places) == ["state.before(\u00d76).tensor[0]"]


def test_what_holds_the_most_bytes_comes_first() -> None:
    places: list[tuple[int, int]] = []
    small = [torch.zeros(2) for _ in range(8)]
    large = [torch.zeros(1000)]
    places += [place(tensor) for tensor in (*small, *large)]
    assert texts(places) == ["large[0]", "small[0…7]"]


def test_what_is_held_by_a_container_in_two_ways() -> None:
    places: list[tuple[int, int]] = []
    weight = torch.ones(64, requires_grad=True)
    losses = []
    for _ in range(4):
        batch = torch.randn(64)
        loss = (weight * batch).sum()
        places += [place(batch), place(loss)]
        losses.append(loss)
    del batch, loss
    found = texts(places)
    assert found[0] == "losses[0…3].grad_fn → SumBackward0 → MulBackward0._saved_other"
    assert found[1] == "losses[0…3]"
