"""The table of rules: what each operation's CUDA kernels allocate, and which kernel torch chooses.

A rule is a class, or a function (`hook` says which), registered for the names of operations as the
dispatcher has them, without "aten::" and the overload:

    before(device, call)            what the kernel allocates before its results
    instead(device, call)           returns the outputs, where torch has no shape function
    births(device, call, outputs)   allocates the outputs in the kernel's own order
    after(device, call, outputs)    what the kernel allocates after its results

A choice decides among kernels, and computes with the chosen one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Callable, Literal, TypeVar

from gpumemprof.estimate.engine.certainty import Certainty
from gpumemprof.estimate.engine.device import Device

__all__ = ["Call", "Certainty", "CompiledRule", "Rule", "choice", "compile_rules", "rule", "rules"]

Hook = Literal["before", "instead", "births", "after"]
Version = tuple[int, int]
# First and last version; None is open.
Versions = tuple["Version | None", "Version | None"]
T = TypeVar("T")
_HOOKS = ("before", "instead", "births", "after")


@dataclass
class Call:
    """One call of an operation; `state` carries what `before` keeps for `after`."""

    func: Any
    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    state: dict[str, Any] = field(default_factory=dict)

    def argument(self, name: str, default: Any = None) -> Any:
        """An argument by its name in the operation's schema."""
        if name in self.kwargs:
            return self.kwargs[name]
        for index, argument in enumerate(self.func._schema.arguments):
            if argument.name == name:
                if index < len(self.args):
                    return self.args[index]
                return argument.default_value if argument.has_default_value() else default
        return default


@dataclass(frozen=True)
class Rule:
    names: tuple[str, ...]
    certainty: Certainty
    torch: Versions | None
    capability: Versions | None
    before: Callable[[Device, Call], None] | None = None
    instead: Callable[[Device, Call], Any] | None = None
    births: Callable[[Device, Call, Any], None] | None = None
    after: Callable[[Device, Call, Any], None] | None = None

    def holds_for(self, device: Device) -> bool:
        return _within(device.torch_version, self.torch) and _within(
            device.card.capability, self.capability
        )


@dataclass(frozen=True)
class CompiledRule:
    """All rules of one operation that hold for a device, in the order of their registration.

    The last registered `instead` and `births` win; all `before` and `after` are called.
    """

    before: tuple[Callable[[Device, Call], None], ...]
    instead: Callable[[Device, Call], Any] | None
    births: Callable[[Device, Call, Any], None] | None
    after: tuple[Callable[[Device, Call, Any], None], ...]
    certainty: Certainty


_rules: list[Rule] = []
_choices: dict[str, Callable[..., Any]] = {}
_LEAST_CERTAIN: tuple[Certainty, ...] = ("guess", "fitted", "exact")


def _within(version: Version, versions: Versions | None) -> bool:
    if versions is None:
        return True
    first, last = versions
    return (first is None or first <= version) and (last is None or version <= last)


def rule(
    *names: str,
    certainty: Certainty,
    torch: Versions | None = None,
    capability: Versions | None = None,
    hook: Hook = "after",
) -> Callable[[T], T]:
    """Register a class with hooks, or a function as the one hook."""

    def register(hooks: T) -> T:
        if isinstance(hooks, type):
            found = {name: getattr(hooks, name, None) for name in _HOOKS}
        else:
            found = {hook: hooks}
        _rules.append(Rule(names, certainty, torch, capability, **found))
        return hooks

    return register


def rules() -> Sequence[Rule]:
    return tuple(_rules)


def compile_rules(device: Device) -> dict[str, CompiledRule]:
    """The rules that hold for a device, by the operation's name."""
    by_name: dict[str, list[Rule]] = {}
    for each in _rules:
        if each.holds_for(device):
            for name in each.names:
                by_name.setdefault(name, []).append(each)
    return {name: _combined(found) for name, found in by_name.items()}


def _combined(found: Sequence[Rule]) -> CompiledRule:
    return CompiledRule(
        before=tuple(each.before for each in found if each.before),
        instead=next((each.instead for each in reversed(found) if each.instead), None),
        births=next((each.births for each in reversed(found) if each.births), None),
        after=tuple(each.after for each in found if each.after),
        certainty=min((each.certainty for each in found), key=_LEAST_CERTAIN.index),
    )


def choice(name: str) -> Callable[[T], T]:
    """Register a function that chooses a kernel; its first argument is the device.

    "scaled_dot_product_attention": takes the operation's arguments and returns its result.
    "convolution_backend": takes the arguments of torch._C._select_conv_backend.
    "convolution_layout": takes input, weight and backend and returns a memory format.
    """

    def register(function: T) -> T:
        _choices[name] = function  # type: ignore[assignment]
        return function

    return register


def chosen(name: str) -> Callable[..., Any] | None:
    return _choices.get(name)
