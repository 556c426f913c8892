"""The names that hold things: globals, variables of running functions, exceptions being handled.

A name is where a chain begins. Those of libraries count too, but come after the program's own.
"""

from __future__ import annotations

import contextvars
import sys
import sysconfig
import threading
import types
from typing import Any

from gpumemprof.holders.chain import Root
from gpumemprof.holders.links import function_name
from gpumemprof.holders.reading import (
    class_values,
    file_of,
    frame_variables,
    is_own_frame,
    module_dict,
    shown_key,
    text_in,
)

__all__ = ["Names", "is_library_file"]

_FOLDERS = tuple(
    path + "/"
    for path in {sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib")}
    if path
)
_LAST_ERRORS = ("last_value", "last_exc", "last_traceback")
_MOST_FRAMES = 10_000


def is_library_file(file: str | None) -> bool:
    """Whether the code belongs to an installed package or to Python itself."""
    if not file or file.startswith("<frozen"):
        return True
    if "/site-packages/" in file or "/dist-packages/" in file:
        return True
    return file.startswith(_FOLDERS)


class _Namespace:
    """The globals of a module."""

    __slots__ = ("is_user", "name")

    def __init__(self, name: str, is_user: bool) -> None:
        self.name, self.is_user = name, is_user


def _place(frame: types.FrameType, thread: str | None) -> str:
    file = file_of(frame).rpartition("/")[2]
    text = f"local of {function_name(frame.f_code)}, {file}:{frame.f_lineno}"
    return f"{text}, in thread '{thread}'" if thread else text


class Names:
    """All names of this moment, by the ids of what they hold.

    Valid only while the caller holds what the ids stand for.
    """

    __slots__ = ("_caller", "_directly", "_namespaces", "_roots", "frames")

    def __init__(
        self,
        caller: types.FrameType | None = None,
        directly: frozenset[int] = frozenset(),
        errors_ended_program: bool = False,
    ) -> None:
        """Leave out the caller's own variables that are one of the objects `directly`.

        Args:
            caller: the frame whose variables do not count.
            directly: ids.
            errors_ended_program: the frames of the last exception count as if they still ran.
        """
        self._caller, self._directly = caller, directly
        self._roots: dict[int, list[Root]] = {}
        self._namespaces: dict[int, _Namespace] = {}
        self.frames: set[int] = set()
        """The ids of the frames that run."""
        self._add_modules()
        self._add_frames(errors_ended_program)
        self._add_errors()
        self._add_context()

    def _add(self, value: Any, root: Root) -> None:
        roots = self._roots.setdefault(id(value), [])
        if len(roots) < 8:
            roots.append(root)

    def _add_modules(self) -> None:
        for name, module in list(sys.modules.items()):
            if type(name) is not str or not issubclass(type(module), types.ModuleType):
                continue
            if (name + ".").startswith("gpumemprof."):
                continue
            values = module_dict(module)
            if values is not None and id(values) not in self._namespaces:
                is_user = name == "__main__" or not is_library_file(text_in(values, "__file__"))
                self._namespaces[id(values)] = _Namespace(name, is_user)

    def _add_frames(self, errors_ended_program: bool) -> None:
        names = {thread.ident: thread.name for thread in list(threading._active.values())}  # type: ignore[attr-defined]
        main = threading.main_thread().ident
        innermost = sys._current_frames()
        for ident in list(innermost):
            thread = None if ident == main else str(names.get(ident, ident))
            frames: list[types.FrameType] = []
            current: types.FrameType | None = innermost.pop(ident)
            while current is not None and len(frames) < _MOST_FRAMES:
                frames.append(current)
                current = current.f_back
            is_calling = True
            for place in range(len(frames)):
                if is_own_frame(frames[place]):
                    is_calling = True
                else:
                    self._add_frame(frames[place], thread, not is_calling, len(frames) - place)
                    is_calling = False
            # This frame is one of them: a cycle that would keep all of them, and their variables.
            current = None
            frames.clear()
        if errors_ended_program:
            error = sys.exc_info()[1] or getattr(sys, "last_value", None)
            traceback = error.__traceback__ if isinstance(error, BaseException) else None
            while traceback is not None:
                self._add_frame(traceback.tb_frame, None, True, 1)
                traceback = traceback.tb_next

    def _add_frame(
        self, frame: types.FrameType, thread: str | None, with_temporaries: bool, depth: int
    ) -> None:
        self.frames.add(id(frame))
        values = frame.f_globals
        if id(values) not in self._namespaces:  # of exec() or a notebook
            space = text_in(values, "__name__") or "a namespace"
            self._namespaces[id(values)] = _Namespace(space, not is_library_file(file_of(frame)))
        if not frame.f_code.co_flags & 1 and frame.f_locals is values:
            return
        is_user = not is_library_file(file_of(frame))
        for name, value in frame_variables(frame):
            if frame is self._caller and id(_inside(value)) in self._directly:
                continue
            place = _place(frame, thread)
            if name is not None:
                self._add(value, Root(name, place, is_user, "variable", depth))
            elif with_temporaries:
                text = "a temporary value"
                where = place.replace("local of", "in")
                self._add(value, Root(text, where, is_user, "other", depth))

    def _add_errors(self) -> None:
        current = getattr(sys, "_current_exceptions", None)
        found = current() if current is not None else {0: sys.exc_info()}
        for entry in found.values():
            error = entry[1] if type(entry) is tuple else entry
            if error is not None:
                text = "exception being handled"
                self._add(error, Root(text, "", True, "other"))

    def _add_context(self) -> None:
        for variable, value in contextvars.copy_context().items():
            self._add(value, Root(f"context variable '{variable.name}'", "", True, "other"))

    def of(self, value: Any) -> list[Root]:
        """The names of a value, other than globals."""
        return self._roots.get(id(value), [])

    def namespace(self, values: Any) -> _Namespace | None:
        """The module whose globals these are."""
        known = self._namespaces.get(id(values))
        if known is not None or type(values) is not dict:
            return known
        # A module that was replaced or deleted, while its functions are still there.
        name = text_in(values, "__name__")
        if name is None or "__builtins__" not in values:
            return None
        return _Namespace(name, not is_library_file(text_in(values, "__file__")))

    def globals_holding(
        self, values: dict[str, Any], space: _Namespace, wanted: Any
    ) -> list[tuple[int, Root]]:
        """The globals that hold one of the wanted objects, with the id of the object."""
        found = []
        caller = self._caller
        is_callers = caller is not None and caller.f_globals is values
        for key, value in list(dict.items(values)):
            if id(value) not in wanted:
                continue
            if is_callers and id(value) in self._directly:
                continue
            name = key if type(key) is str else shown_key(key)
            if space.name == "sys" and name in _LAST_ERRORS:
                found.append((id(value), Root(f"sys.{name}", "", True, "other")))
            elif space.name in ("__main__", "__mp_main__"):
                found.append((id(value), Root(name, "", space.is_user)))
            else:
                found.append((id(value), Root(f"{space.name}.{name}", "", space.is_user)))
        return found

    def class_root(self, kind: type) -> Root:
        """The name of a class, which holds its attributes."""
        values = class_values(kind)
        module = values.get("__module__")
        file = None
        if type(module) is str:
            found = sys.modules.get(module)
            if found is not None and issubclass(type(found), types.ModuleType):
                file = text_in(module_dict(found), "__file__")
        is_user = module == "__main__" or (file is not None and not is_library_file(file))
        name = str(type.__dict__["__qualname__"].__get__(kind)).rpartition("<locals>.")[2]
        in_main = module == "__main__" or type(module) is not str
        return Root(name if in_main else f"{module}.{name}", "", is_user)


def _inside(value: Any) -> Any:
    """The content of a cell; everything else is itself."""
    if type(value) is types.CellType:
        try:
            return value.cell_contents
        except ValueError:
            return None
    return value
