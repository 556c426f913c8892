"""The program's modules: which are roots, and the names of their parameters and buffers."""

from __future__ import annotations

import dis
import inspect
import itertools
import re
import weakref
from collections.abc import Iterator
from typing import Any

from gpumemprof import _core
from gpumemprof._core import LabelKind
from gpumemprof.hooks.storages import LabelSet, Named, named_storages
from gpumemprof.torch_calls.modules import live_modules
from gpumemprof.torch_calls.tensors import is_lazy

__all__ = ["Modules"]

# Wrappers that torch puts around the program's modules, left out of names.
_WRAPPERS = re.compile(r"(^|(?<=\.))(_orig_mod|_fsdp_wrapped_module|_checkpoint_wrapped_module)\.")
_MOST_SEARCHES = 8
_MOST_MODULES = 200_000


class _Root:
    def __init__(self, module: Any, prefix: str) -> None:
        self.module = weakref.ref(module)
        self.prefix = prefix
        self.labels = LabelSet()
        self.is_described = False
        self.is_counted = False
        """Whether its parameters are; a lazy module has none with a size before its first batch."""
        self.is_checked = False
        """Whether it is known that no other module holds it; one that was called may be held."""


def _is_wrapper(module: Any) -> bool:
    return type(module).__name__ in ("DistributedDataParallel", "DataParallel")


def _tensors_of(module: Any) -> Iterator[Any]:
    yield from module.parameters()
    yield from module.buffers()


def _lines_of_forward(module: Any) -> tuple[str, int, int]:
    """The file and the first and last line of its forward; empty if it is not written in Python."""
    # Of the function itself: some libraries wrap every forward.
    code = getattr(inspect.unwrap(type(module).forward), "__code__", None)
    if code is None:
        return "", 0, 0
    lines = [line for _, line in dis.findlinestarts(code) if line is not None]
    return code.co_filename, code.co_firstlineno, max(lines, default=code.co_firstlineno)


class Modules:
    """The known roots, held weakly."""

    def __init__(self) -> None:
        self._roots: list[_Root] = []
        self._inner: weakref.WeakSet[Any] = weakref.WeakSet()
        self._described: dict[int, weakref.ref[Any]] = {}
        self._searches = 0
        self.parameter_bytes: dict[str, int] = {}
        """By the name of their type, as ``float32``, of all modules that were described."""

    def is_inner(self, module: Any) -> bool:
        """Whether the module is part of a known root, and not a root itself."""
        return module in self._inner

    def add_root(self, module: Any) -> bool:
        """Add a module that no known root contains; True if it was new."""
        self._drop_dead()
        if any(root.module() is module for root in self._roots):
            return False
        inner = [part for part in module.modules() if part is not module]
        # Former roots are now part of this one.
        held = {id(part) for part in inner}
        self._roots = [root for root in self._roots if id(root.module()) not in held]
        self._roots.append(_Root(module, self._free_prefix(module)))
        self._inner.update(inner)
        return True

    def see_called(self, called: list[Any]) -> None:
        """One of these modules, innermost first, has no name yet."""
        outermost = called[-1]
        is_inner = self.is_inner(outermost)
        parts = itertools.chain(outermost.children(), _tensors_of(outermost))
        if not is_inner and next(parts, None) is None:
            # For example a loss: it has no name but its class, as have all others of that class.
            _core.capture_leave_unnamed(type(outermost))
        elif not is_inner and self.add_root(outermost):
            self.emit()
        elif any(id(module) not in self._described for module in called):
            # A part of a known root that was added or replaced since.
            for root, module in self._alive():
                self._describe(root, module)

    def _free_prefix(self, module: Any) -> str:
        """Empty for the first root; the class for the others, numbered if there are several.

        A loss or a data transform, which owns nothing, does not count as the first.
        """
        taken = {root.prefix for root in self._roots}
        name = type(module).__name__
        prefixes = ["", f"{name}.", *(f"{name}_{number}." for number in range(2, len(taken) + 4))]
        if next(_tensors_of(module), None) is None:
            del prefixes[0]
        return next(prefix for prefix in prefixes if prefix not in taken)

    def find_owners(self, parameters: list[Any]) -> None:
        """Look for the roots that own these parameters; slow, and done once for most programs."""
        names = self.parameter_names()
        wanted = {id(parameter) for parameter in parameters}
        is_known = all(root.is_checked for root in self._roots) and wanted <= names.keys()
        if is_known or self._searches >= _MOST_SEARCHES:
            return
        self._searches += 1
        others = []
        for module in self._all_roots():
            if any(id(parameter) in wanted for parameter in module.parameters()):
                self.add_root(module)
            else:
                others.append(module)
        # Weight averages, teacher models and the like have no optimizer.
        self._add_owning(others)
        for root in self._roots:
            root.is_checked = True

    def find_any(self) -> None:
        """Find all roots: some are neither called nor optimized."""
        self._add_owning(self._all_roots())

    def _add_owning(self, modules: list[Any]) -> None:
        known = {id(tensor) for _, module in self._alive() for tensor in _tensors_of(module)}
        for module in modules:
            if any(id(tensor) not in known for tensor in _tensors_of(module)):
                self.add_root(module)

    def parameter_names(self) -> dict[int, str]:
        """Names by parameter id; valid only while no code of the program runs."""
        names: dict[int, str] = {}
        for root, module in self._alive():
            for name, parameter in module.named_parameters():
                names.setdefault(id(parameter), self._name(root, module, name))
        return names

    def emit(self) -> None:
        """Label all parameters and buffers, and describe the modules once."""
        for root, module in self._alive():
            root.labels.emit(named_storages(self._tensors(root, module)))
            self._emit_gradients(root, module)
            if not root.is_described:
                root.is_described = True
                self._describe(root, module)
            if not root.is_counted and not any(map(is_lazy, module.parameters())):
                root.is_counted = True
                self._count_types(module)

    def _count_types(self, module: Any) -> None:
        for parameter in module.parameters():
            name = str(parameter.dtype).removeprefix("torch.")
            count = parameter.numel() * parameter.element_size()
            self.parameter_bytes[name] = self.parameter_bytes.get(name, 0) + count

    def reset(self) -> None:
        """Forget what was reported: a new listener has received nothing yet."""
        for root in self._roots:
            root.labels = LabelSet()
            root.is_described = root.is_counted = False
        self.parameter_bytes = {}

    def _tensors(self, root: _Root, module: Any) -> Iterator[Named]:
        for name, parameter in module.named_parameters(remove_duplicate=False):
            yield LabelKind.parameter, self._name(root, module, name), parameter
        for name, buffer in module.named_buffers(remove_duplicate=False):
            yield LabelKind.buffer, self._name(root, module, name), buffer

    def _emit_gradients(self, root: _Root, module: Any) -> None:
        """Include those no optimizer uses; reported once, as they may be freed at any time."""
        labels = LabelSet()
        labels.emit(
            named_storages(
                (LabelKind.gradient, self._name(root, module, name) + ".grad", gradient)
                for name, parameter in module.named_parameters()
                if (gradient := parameter.grad) is not None
            )
        )
        labels.forget()

    def _describe(self, root: _Root, module: Any) -> None:
        # A model may load a library that defines its own autograd functions.
        _core.capture_follow_libraries()
        rows: list[tuple[str, str, str, int, int, int, bool]] = []
        for path, part in module.named_modules():
            if len(rows) >= _MOST_MODULES:
                break
            rows.append(
                (
                    self._name(root, module, path + "." if path else "").rstrip("."),
                    type(part).__qualname__,
                    *_lines_of_forward(part),
                    id(part),
                    part is module,
                )
            )
            self._watch_death(part)
        _core.capture_describe_modules(rows)

    def _watch_death(self, module: Any) -> None:
        """A module is known by its address, which another may reuse later."""
        number, described = id(module), self._described
        # Python clears its modules at exit, before the last of the program's objects.
        forget = _core.capture_forget_module

        def die(_: object) -> None:
            described.pop(number, None)
            forget(number)

        if number not in described:
            described[number] = weakref.ref(module, die)

    def _name(self, root: _Root, module: Any, name: str) -> str:
        if _is_wrapper(module) and name.startswith("module."):
            name = name[len("module.") :]
        return root.prefix + _WRAPPERS.sub("", name)

    def _alive(self) -> list[tuple[_Root, Any]]:
        pairs = [(root, root.module()) for root in self._roots]
        return [(root, module) for root, module in pairs if module is not None]

    def _drop_dead(self) -> None:
        self._roots = [root for root in self._roots if root.module() is not None]

    @staticmethod
    def _all_roots() -> list[Any]:
        modules = live_modules()
        held = {
            id(child) for module in modules for child in vars(module).get("_modules", {}).values()
        }
        return [module for module in modules if id(module) not in held]
