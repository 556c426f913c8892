"""What an optimizer's step reveals: parameters and gradients before it, its state after it."""

from __future__ import annotations

from typing import Any

from gpumemprof import _core
from gpumemprof._core import LabelKind, PhaseMark, PlaceChange
from gpumemprof.hooks.modules import Modules
from gpumemprof.hooks.storages import (
    LabelSet,
    Named,
    are_plain,
    named_storages,
    pointers,
    starts,
    tensors_in,
)
from gpumemprof.torch_calls.tensors import plain_kinds

__all__ = ["WatchedOptimizer"]


def _is_seldom(count: int) -> bool:
    """True for the first steps, then for the larger powers of two."""
    return count < 3 or (count >= 32 and count & (count - 1) == 0)


def _steps_until_seldom(count: int) -> int:
    """How many steps follow step `count` before everything is checked again."""
    following = 32
    while following <= count:
        following *= 2
    return following - count - 1


def _parameters(optimizer: Any) -> list[Any]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


class WatchedOptimizer:
    """One optimizer of the program, not kept alive from here.

    Every step only compares addresses, read without calling torch where that is proven to work.
    Names are built when an address differs. What these addresses do not show (buffers, replaced
    state) is checked at the first steps, then less and less often.

    Addresses are read after the step if the step is known to leave gradients in place: it has just
    used them, so they are in the CPU cache. Labels reported then hold for the whole life of the
    storages.
    """

    def __init__(self, number: int, modules: Modules, unchanged: _core.UnchangedSteps) -> None:
        self._number = number
        self._modules = modules
        self._unchanged = unchanged
        self._kinds = plain_kinds()
        self._steps = 0
        self._leaves_gradients = False
        self._is_deferred = False  # for the current step, or one that failed
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
        self._is_deferred = self._leaves_gradients and not _is_seldom(self._steps)
        if not self._is_deferred:
            self._emit(optimizer)
        _core.capture_mark_phase(PhaseMark.optimizer_start, self._number)

    def emit_deferred_labels(self, optimizer: Any) -> None:
        """Report what an ended or failed step used, if that was postponed."""
        self._catch_up(optimizer)
        if self._is_deferred:
            self._is_deferred = False
            self._emit(optimizer)

    def _catch_up(self, optimizer: Any) -> None:
        """Account for unchanged steps that were handled without us."""
        done = self._unchanged.forget(optimizer)
        if done is None:
            return
        self._steps += done.steps
        self._gradient_labels.number = done.gradient_labels
        self._gradient_places = []
        self._is_deferred = done.is_open

    def _expect_the_same(self, optimizer: Any) -> None:
        """Let the next steps bypass us as long as nothing changes."""
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

    def _emit(self, optimizer: Any) -> None:
        change = self._read.read(optimizer.param_groups, self._kinds)
        if _is_seldom(self._steps) or not self._emit_from_addresses(change):
            self._leaves_gradients = False  # until seen again
            self._ask_torch(optimizer)

    def _emit_from_addresses(self, change: PlaceChange) -> bool:
        """Report what holds now; False if the addresses are not enough to know."""
        if change == PlaceChange.other:
            return False
        if change == PlaceChange.gradients_moved:
            if self._read.gradient_count() != len(self._gradient_labels):
                return False  # Some share a storage.
            self._gradient_labels.emit_read(self._read)
            self._gradient_places = []
        else:
            self._gradient_labels.emit_again()
        self._labels.emit_again()
        return True

    def _ask_torch(self, optimizer: Any) -> None:
        parameters = _parameters(optimizer)
        gradients = [parameter.grad for parameter in parameters]
        places = pointers(parameters)
        if places != self._places or _is_seldom(self._steps):
            self._emit_parameters(parameters)
            self._places = places
        else:
            self._labels.emit_again()
        self._emit_gradients(gradients)

    def after_step(self, optimizer: Any, has_closure: bool) -> None:
        """The state is as the step left it; so are the gradients if the step computes them."""
        self._catch_up(optimizer)
        _core.capture_mark_phase(PhaseMark.optimizer_end, self._number)
        if has_closure:
            self._is_deferred = self._leaves_gradients = False
            self._read.forget()
            self._emit_gradients([parameter.grad for parameter in _parameters(optimizer)])
        elif self._is_deferred:
            self.emit_deferred_labels(optimizer)
        elif _is_seldom(self._steps):
            change = self._read.read(optimizer.param_groups, self._kinds)
            self._leaves_gradients = change == PlaceChange.none
        state = optimizer.state
        # A loaded state is a different dictionary of the same size.
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
            self._state_labels.emit_again()
            return
        self._is_state_exchanged = len(places) == len(self._state_places)
        self._state_places = places
        self._state_size = (len(state), id(state))
        names = self._modules.parameter_names()
        rows: list[Named] = [
            (LabelKind.optimizer_state, f"{names.get(id(key), 'parameter')} {name[1:]}", tensor)
            for key, name, tensor in tensors
        ]
        self._state_labels.emit(named_storages(rows))

    def reset(self) -> None:
        """Forget what was reported: a new listener has received nothing yet."""
        self.__init__(self._number, self._modules, self._unchanged)  # type: ignore[misc]

    def _emit_parameters(self, parameters: list[Any]) -> None:
        self._modules.find_owners(parameters)
        self._modules.emit()
        names = self._modules.parameter_names()
        # Those that no module owns; the modules name the rest.
        self._names = [
            names.get(id(parameter), f"parameter {index}")
            for index, parameter in enumerate(parameters)
        ]
        self._gradient_rows = None
        rows: list[Named] = [
            (LabelKind.parameter, name, parameter)
            for name, parameter in zip(self._names, parameters)
            if id(parameter) not in names
        ]
        self._labels.emit(named_storages(rows))

    def _emit_gradients(self, gradients: list[Any]) -> None:
        places = pointers(gradients)
        if places == self._gradient_places and self._gradient_rows is not None:
            self._gradient_labels.emit_again()
            return
        self._gradient_places = places
        rows = [index for index, gradient in enumerate(gradients) if gradient is not None]
        there = [gradients[index] for index in rows]
        is_plain = len(places) == len(gradients) and are_plain(there)
        if is_plain and rows == self._gradient_rows and len(rows) == len(self._gradient_labels):
            # The same as at the previous step, but the allocator returned other blocks.
            self._gradient_labels.emit_moved(starts(there, [places[index] for index in rows]))
            return
        self._gradient_rows = rows
        named: list[Named] = [
            (LabelKind.gradient, self._names[index] + ".grad", gradients[index]) for index in rows
        ]
        self._gradient_labels.forget()
        self._gradient_labels.emit(named_storages(named))
