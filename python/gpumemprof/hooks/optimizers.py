"""What an optimizer's step shows: parameters and gradients before it, its state after it."""

from __future__ import annotations

from typing import Any

from gpumemprof import _core, _torch
from gpumemprof.hooks.modules import Modules
from gpumemprof.hooks.storages import (
    GRADIENT,
    OPTIMIZER_STATE,
    PARAMETER,
    LabelSet,
    Named,
    are_plain,
    named_storages,
    pointers,
    starts,
    tensors_in,
)

__all__ = ["OPTIMIZER_END", "OPTIMIZER_START", "WatchedOptimizer"]

OPTIMIZER_START, OPTIMIZER_END = range(2)
# What TensorPlaces.read() finds.
_SAME, _GRADIENTS_MOVED, _ASK_TORCH = range(3)


def _is_seldom(count: int) -> bool:
    """At the first steps, then at the larger powers of two."""
    return count < 3 or (count >= 32 and count & (count - 1) == 0)


def _steps_until_seldom(count: int) -> int:
    """How many steps follow step `count` before one at which all is looked at again."""
    following = 32
    while following <= count:
        following *= 2
    return following - count - 1


def _parameters(optimizer: Any) -> list[Any]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


class WatchedOptimizer:
    """One optimizer of the program, which is not held here.

    At every step only addresses are compared, read without torch's help where that is proven.
    Names are made when an address differs, and what does not show in the addresses compared
    (buffers, state that is exchanged) at the first steps and then ever more seldom.

    Addresses are read after the step where the step is known to leave gradients where they were:
    it has just used them, so they need not be fetched from far away. What is said then holds for
    the whole life of the storages.
    """

    def __init__(self, number: int, modules: Modules, unchanged: _core.UnchangedSteps) -> None:
        self._number = number
        self._modules = modules
        self._unchanged = unchanged
        self._kinds = _torch.plain_kinds()
        self._steps = 0
        self._leaves_gradients = False
        self._is_unsaid = False  # of the step that runs, or that failed
        self._read = _core.TensorPlaces()
        self._places: list[int] = []
        self._names: list[str] = []
        self._gradient_places: list[int] = []
        self._gradient_rows: list[int] | None = None
        self._state_places: list[int] = []
        self._state_size = (-1, 0)
        self._is_state_exchanged = False
        self._labels = LabelSet()
        self._gradient_labels = LabelSet()
        self._state_labels = LabelSet()

    def before_step(self, optimizer: Any) -> None:
        """Parameters and gradients are as the step will use them."""
        self._catch_up(optimizer)
        self._steps += 1
        self._is_unsaid = self._leaves_gradients and not _is_seldom(self._steps)
        if not self._is_unsaid:
            self._say(optimizer)
        _core.capture_mark_phase(OPTIMIZER_START, self._number)

    def say_unsaid(self, optimizer: Any) -> None:
        """What a step used that has ended or failed, where that was left for later."""
        self._catch_up(optimizer)
        if self._is_unsaid:
            self._is_unsaid = False
            self._say(optimizer)

    def _catch_up(self, optimizer: Any) -> None:
        """Learn of the steps that were like the one before and were seen without us."""
        done = self._unchanged.forget(optimizer)
        if done is None:
            return
        steps, gradient_labels, is_open = done
        self._steps += steps
        self._gradient_labels.number = gradient_labels
        self._gradient_places = []
        self._is_unsaid = is_open

    def _expect_the_same(self, optimizer: Any) -> None:
        """The next steps need not come to us as long as nothing changes."""
        if self._leaves_gradients and not self._is_state_exchanged and self._steps >= 3:
            self._unchanged.expect(
                optimizer,
                self._read,
                self._kinds,
                self._number,
                self._labels.number,
                self._gradient_labels.number,
                len(self._gradient_labels),
                _steps_until_seldom(self._steps),
            )

    def _say(self, optimizer: Any) -> None:
        change = self._read.read(optimizer.param_groups, self._kinds)
        if _is_seldom(self._steps) or not self._say_from_addresses(change):
            self._leaves_gradients = False  # until it has been seen again
            self._ask_torch(optimizer)

    def _say_from_addresses(self, change: int) -> bool:
        """Say what holds now; False where the addresses do not tell it."""
        if change == _ASK_TORCH:
            return False
        if change == _GRADIENTS_MOVED:
            if self._read.gradient_count() != len(self._gradient_labels):
                return False  # Some share a storage.
            self._gradient_labels.say_read(self._read)
            self._gradient_places = []
        else:
            self._gradient_labels.say_again()
        self._labels.say_again()
        return True

    def _ask_torch(self, optimizer: Any) -> None:
        parameters = _parameters(optimizer)
        gradients = [parameter.grad for parameter in parameters]
        places = pointers(parameters)
        if places != self._places or _is_seldom(self._steps):
            self._say_parameters(parameters)
            self._places = places
        else:
            self._labels.say_again()
        self._say_gradients(gradients)

    def after_step(self, optimizer: Any, has_closure: bool) -> None:
        """The state is what the step made of it; so are gradients, where the step computes them."""
        self._catch_up(optimizer)
        _core.capture_mark_phase(OPTIMIZER_END, self._number)
        if has_closure:
            self._is_unsaid = self._leaves_gradients = False
            self._read.forget()
            self._say_gradients([parameter.grad for parameter in _parameters(optimizer)])
        elif self._is_unsaid:
            self.say_unsaid(optimizer)
        elif _is_seldom(self._steps):
            change = self._read.read(optimizer.param_groups, self._kinds)
            self._leaves_gradients = change == _SAME
        state = optimizer.state
        # A state that was loaded is another dictionary of the same size.
        is_due = (len(state), id(state)) != self._state_size or _is_seldom(self._steps)
        if not is_due and not self._is_state_exchanged:
            self._expect_the_same(optimizer)
            return
        tensors = [
            (key, name, tensor)
            for key, values in state.items()
            for name, tensor in tensors_in(values, "")
        ]
        places = pointers([tensor for *_, tensor in tensors])
        if places == self._state_places:
            self._state_labels.say_again()
            return
        self._is_state_exchanged = len(places) == len(self._state_places)
        self._state_places = places
        self._state_size = (len(state), id(state))
        names = self._modules.parameter_names()
        rows: list[Named] = [
            (OPTIMIZER_STATE, f"{names.get(id(key), 'parameter')} {name[1:]}", tensor)
            for key, name, tensor in tensors
        ]
        self._state_labels.say(named_storages(rows))

    def reset(self) -> None:
        """Whoever listens has heard nothing yet."""
        self.__init__(self._number, self._modules, self._unchanged)  # type: ignore[misc]

    def _say_parameters(self, parameters: list[Any]) -> None:
        self._modules.find_owners(parameters)
        self._modules.say()
        names = self._modules.parameter_names()
        # Those that no module owns; the modules name the others.
        self._names = [
            names.get(id(parameter), f"parameter {index}")
            for index, parameter in enumerate(parameters)
        ]
        self._gradient_rows = None
        rows: list[Named] = [
            (PARAMETER, name, parameter)
            for name, parameter in zip(self._names, parameters)
            if id(parameter) not in names
        ]
        self._labels.say(named_storages(rows))

    def _say_gradients(self, gradients: list[Any]) -> None:
        places = pointers(gradients)
        if places == self._gradient_places and self._gradient_rows is not None:
            self._gradient_labels.say_again()
            return
        self._gradient_places = places
        rows = [index for index, gradient in enumerate(gradients) if gradient is not None]
        there = [gradients[index] for index in rows]
        is_plain = len(places) == len(gradients) and are_plain(there)
        if is_plain and rows == self._gradient_rows and len(rows) == len(self._gradient_labels):
            # As at the step before, but elsewhere: the allocator gave other blocks.
            self._gradient_labels.say_moved(starts(there, [places[index] for index in rows]))
            return
        self._gradient_rows = rows
        named: list[Named] = [
            (GRADIENT, self._names[index] + ".grad", gradients[index]) for index in rows
        ]
        self._gradient_labels.forget()
        self._gradient_labels.say(named_storages(named))
