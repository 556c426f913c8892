"""What an optimizer's step shows: parameters and gradients before it, its state after it."""

from __future__ import annotations

from typing import Any

from gpumemprof import _core
from gpumemprof.hooks.modules import Modules
from gpumemprof.hooks.storages import (
    GRADIENT,
    OPTIMIZER_STATE,
    PARAMETER,
    LabelSet,
    Named,
    named_storages,
    pointers,
    tensors_in,
)

__all__ = ["OPTIMIZER_END", "OPTIMIZER_START", "WatchedOptimizer"]

OPTIMIZER_START, OPTIMIZER_END = range(2)


def _is_seldom(count: int) -> bool:
    """At the first steps, then at every power of two."""
    return count < 4 or count & (count - 1) == 0


def _parameters(optimizer: Any) -> list[Any]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


class WatchedOptimizer:
    """One optimizer of the program, which is not held here.

    At every step only addresses are compared. Names are made when an address differs, and what does
    not show in the addresses compared (buffers, state that is exchanged) at the first steps and then
    ever more seldom.
    """

    def __init__(self, number: int, modules: Modules) -> None:
        self._number = number
        self._modules = modules
        self._steps = 0
        self._places: list[int] = []
        self._gradient_places: list[int] = []
        self._state_places: list[int] = []
        self._state_size = -1
        self._is_state_exchanged = False
        self._labels = LabelSet()
        self._gradient_labels = LabelSet()
        self._state_labels = LabelSet()

    def before_step(self, optimizer: Any) -> None:
        """Parameters and gradients are as the step will use them."""
        self._steps += 1
        parameters = _parameters(optimizer)
        gradients = [parameter.grad for parameter in parameters]
        places = pointers(parameters)
        if places != self._places or _is_seldom(self._steps):
            self._say_parameters(parameters)
            self._places = places
        else:
            self._labels.say_again()
            self._modules.say_again()
        self._say_gradients(parameters, gradients)
        _core.capture_mark_phase(OPTIMIZER_START, self._number)

    def after_step(self, optimizer: Any, has_closure: bool) -> None:
        """The state is what the step made of it; so are gradients, where the step computes them."""
        _core.capture_mark_phase(OPTIMIZER_END, self._number)
        if has_closure:
            parameters = _parameters(optimizer)
            self._say_gradients(parameters, [parameter.grad for parameter in parameters])
        state = optimizer.state
        is_due = len(state) != self._state_size or _is_seldom(self._steps)
        if not is_due and not self._is_state_exchanged:
            self._state_labels.say_again()
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
        self._state_size = len(state)
        names = self._modules.parameter_names()
        rows: list[Named] = [
            (OPTIMIZER_STATE, f"{names.get(id(key), 'parameter')} {name[1:]}", tensor)
            for key, name, tensor in tensors
        ]
        self._state_labels.say(named_storages(rows))

    def reset(self) -> None:
        """Whoever listens has heard nothing yet."""
        self.__init__(self._number, self._modules)  # type: ignore[misc]

    def _say_parameters(self, parameters: list[Any]) -> None:
        self._modules.find_owners(parameters)
        self._modules.say()
        names = self._modules.parameter_names()
        # Those that no module owns; the modules name the others.
        rows: list[Named] = [
            (PARAMETER, f"parameter {index}", parameter)
            for index, parameter in enumerate(parameters)
            if id(parameter) not in names
        ]
        self._labels.say(named_storages(rows))

    def _say_gradients(self, parameters: list[Any], gradients: list[Any]) -> None:
        places = pointers(gradients)
        if places == self._gradient_places:
            self._gradient_labels.say_again()
            return
        self._gradient_places = places
        names = self._modules.parameter_names()
        rows: list[Named] = [
            (GRADIENT, names.get(id(parameter), f"parameter {index}") + ".grad", gradient)
            for index, (parameter, gradient) in enumerate(zip(parameters, gradients))
            if gradient is not None
        ]
        self._gradient_labels.say(named_storages(rows))
