"""What other libraries do that must be different in an estimate; applied when they are imported."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any, Callable

from gpumemprof.estimate.patches.patcher import Patcher

__all__ = ["install"]

Change = Callable[[Patcher, ModuleType], None]


def _transformers(patcher: Patcher, module: ModuleType) -> None:
    # It takes another path for tensors that it knows to be traced.
    patcher.set_if_present(module, "is_fake_tensor", lambda *_: False)


_CHANGES: dict[str, Change] = {"transformers.utils.import_utils": _transformers}


def install(patcher: Patcher) -> None:
    for name, change in _CHANGES.items():
        module = sys.modules.get(name)
        if module is not None:
            change(patcher, module)
    finder = _Finder(patcher)
    sys.meta_path.insert(0, finder)
    patcher.on_undo(lambda: sys.meta_path.remove(finder))


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the libraries that are changed, as Python would, and changes them once loaded."""

    def __init__(self, patcher: Patcher) -> None:
        self._patcher = patcher
        self._is_busy = False

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name not in _CHANGES or self._is_busy:
            return None
        self._is_busy = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._is_busy = False
        if spec is None or spec.loader is None:
            return None
        spec.loader = _Loader(spec.loader, _CHANGES[name], self._patcher)
        return spec


class _Loader(importlib.abc.Loader):
    def __init__(self, real: Any, change: Change, patcher: Patcher) -> None:
        self._real = real
        self._change = change
        self._patcher = patcher

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._real.create_module(spec)  # type: ignore[no-any-return]

    def exec_module(self, module: ModuleType) -> None:
        self._real.exec_module(module)
        self._change(self._patcher, module)
