"""The program ends after the steps that were asked for, all its optimizers included."""

from __future__ import annotations

import contextlib
import gc
import threading

import pytest
from gpumemprof.estimate.process.ending import EnoughSteps, StepLimit, TimeLimit
from gpumemprof.estimate.process.program_lines import main_line


class Optimizer:
    """One that only counts."""

    def __init__(self, limit: StepLimit) -> None:
        self.limit = limit
        self.steps = 0

    def step(self) -> None:
        self.limit.before_step(self)
        self.steps += 1
        self.limit.after_step(self)


class Told:
    def __init__(self) -> None:
        self.steps: list[int] = []
        self.ends = 0

    def end(self) -> None:
        self.ends += 1


def limited(most: int) -> tuple[StepLimit, Told]:
    told = Told()
    return StepLimit(most, told.steps.append, told.end), told


def test_one_optimizer_ends_after_its_last_step() -> None:
    limit, told = limited(3)
    optimizer = Optimizer(limit)
    with pytest.raises(EnoughSteps) as raised:
        while True:
            optimizer.step()
    assert optimizer.steps == 3
    assert (told.steps, told.ends) == ([1, 2, 3], 1)
    assert raised.value.code == 0
    # The program's own objects are gone when the end is reported.
    del optimizer, raised
    gc.collect()
    assert limit.steps == 3


def test_two_optimizers_both_get_their_last_step() -> None:
    limit, told = limited(3)
    first, second = Optimizer(limit), Optimizer(limit)
    with pytest.raises(EnoughSteps):
        while True:
            first.step()
            second.step()
    assert (first.steps, second.steps, told.ends) == (3, 3, 1)


def test_an_optimizer_that_steps_rarely_does_not_keep_the_program_running() -> None:
    limit, _ = limited(3)
    often, rarely = Optimizer(limit), Optimizer(limit)
    with pytest.raises(EnoughSteps):
        for number in range(100):
            often.step()
            if number % 5 == 0:
                rarely.step()
    assert (often.steps, rarely.steps) == (3, 1)


def test_a_single_step_includes_every_optimizer() -> None:
    limit, _ = limited(1)
    first, second = Optimizer(limit), Optimizer(limit)
    with pytest.raises(EnoughSteps):
        while True:
            first.step()
            second.step()
    assert (first.steps, second.steps) == (1, 1)


class Left(BaseException):
    """The process is gone."""


def test_a_program_that_catches_the_end_is_ended_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limit, told = limited(2)
    optimizer = Optimizer(limit)

    def leave(code: int) -> None:
        raise Left(code)

    monkeypatch.setattr("os._exit", leave)
    optimizer.step()
    with contextlib.suppress(EnoughSteps):
        optimizer.step()
    with pytest.raises(Left) as raised:
        optimizer.step()
    assert raised.value.args == (0,)
    assert (optimizer.steps, told.ends) == (2, 1)


def test_time_that_is_over_is_noticed_and_a_program_that_has_ended_is_left_alone() -> None:
    over = threading.Event()
    TimeLimit(0.01, over.set, lambda: None).start()
    assert over.wait(10)
    ended: list[str] = []
    limit = TimeLimit(0.2, lambda: ended.append("over"), lambda: None)
    limit.start()
    limit.cancel()
    limit._thread.join(10)
    assert not limit._thread.is_alive()
    assert ended == []


def test_the_line_of_the_main_thread_is_known_in_another_thread() -> None:
    found: list[str] = []
    thread = threading.Thread(target=lambda: found.append(main_line()))
    thread.start()
    thread.join()
    assert "test_estimate_ending.py:" in found[0]
