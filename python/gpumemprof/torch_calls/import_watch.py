"""Detects when the program has imported torch, however it found out that torch exists.

Programs look for torch long before they import it, and some never do: ``find_spec("torch")``,
``pkgutil``, lazy importers, an import that fails and is retried. So the watcher stays until torch's
module has been executed, and it leaves no trace: the loader in ``torch.__spec__`` is as Python made
it, and a traceback out of torch has no frame of ours.
"""

from __future__ import annotations

import sys

MYPY = False
if MYPY:  # Runs at startup of processes that may not need us: imports nothing else.
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import FrameType, ModuleType
    from typing import Any, Callable

__all__ = ["TorchWatch", "executed_torch", "torch_file"]

_NAME = "torch"
# Set by an import late in torch's own module; another module named torch does not have it.
_SIGN = "cuda"


def _names_of(module: object) -> dict[str, Any]:
    """The contents of a module. Reading a lazy module in any other way would import it."""
    try:
        names: dict[str, Any] = object.__getattribute__(module, "__dict__")
    except AttributeError:
        return {}
    return names


def _is_running(names: dict[str, Any]) -> bool:
    """Whether some thread is executing the module with these globals."""
    for innermost in sys._current_frames().values():
        frame: FrameType | None = innermost
        while frame is not None:
            if frame.f_globals is names and frame.f_code.co_name == "<module>":
                return True
            frame = frame.f_back
    return False


def executed_torch() -> dict[str, Any] | None:
    """The contents of torch's module once it has been executed completely, else None."""
    names = _names_of(sys.modules.get(_NAME))
    return names if _SIGN in names and not _is_running(names) else None


def torch_file() -> str | None:
    """The file of torch's module, if an import has found it, even a lazy one."""
    file = _names_of(sys.modules.get(_NAME)).get("__file__")
    return file if isinstance(file, str) else None


class _ExecModule:
    """Replaces a loader's ``exec_module`` until it is called."""

    def __init__(self, loader: Any, watch: TorchWatch) -> None:
        self._loader = loader
        self._execute = loader.exec_module
        self._watch = watch

    # Loaders are compared by their contents.
    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ExecModule)

    def __hash__(self) -> int:
        return hash(_ExecModule)

    def __call__(self, module: ModuleType) -> None:
        if self._loader.__dict__.get("exec_module") is self:
            del self._loader.exec_module
        self._execute(module)
        self._watch.look()


# Python strips frames of its import system from tracebacks; this makes it strip ours too.
_ExecModule.__call__.__code__ = _ExecModule.__call__.__code__.replace(
    co_filename="<frozen importlib._bootstrap_external>"
)


class TorchWatch:
    """A finder on ``sys.meta_path``: finds torch as the others do, and detects its execution.

    Every import of a module that is not loaded yet comes through here, so what bypasses the loader
    (a module executed by hand, an import already under way) is noticed at the next one.
    """

    def __init__(self) -> None:
        self._callbacks: list[Callable[[], None]] = []

    def add(self, callback: Callable[[], None]) -> None:
        """Call back once, when torch has been executed; at once if it already has."""
        self._callbacks.append(callback)
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)
        self.look()

    def look(self) -> None:
        """Run the callbacks if torch has been executed."""
        if not self._callbacks or executed_torch() is None:
            return
        self._leave()
        # No lock: a forked child could find it held. Removing an item is a single operation.
        while self._callbacks:
            try:
                callback = self._callbacks.pop(0)
            except IndexError:
                return
            callback()

    def cancel(self) -> None:
        """Drop all callbacks."""
        self._callbacks.clear()
        self._leave()

    def _leave(self) -> None:
        try:
            sys.meta_path.remove(self)
        except ValueError:
            return

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != _NAME:
            if _SIGN in _names_of(sys.modules.get(_NAME)):
                self.look()
            return None
        for finder in self._later_finders():
            find = getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = find(name, path, target) if find is not None else None
            if spec is not None:
                self._watch_loader(spec.loader)
                return spec
        return None

    def _later_finders(self) -> list[Any]:
        """Those that Python would ask next; earlier ones have already been asked."""
        finders = list(sys.meta_path)
        return finders[finders.index(self) + 1 :] if self in finders else finders

    def _watch_loader(self, loader: Any) -> None:
        # Only a loader of torch alone: one that several modules share stays as it is.
        if getattr(loader, "name", None) == _NAME and hasattr(loader, "exec_module"):
            loader.exec_module = _ExecModule(loader, self)
