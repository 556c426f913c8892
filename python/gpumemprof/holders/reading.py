"""Reads the program's objects without running any of their code.

No attribute is looked up the usual way: a class may answer with a property, ``__getattr__`` or a
proxy. Only the slots that Python itself defines are read, through the descriptors of the types.
"""

from __future__ import annotations

import contextlib
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gpumemprof import _core

__all__ = [
    "class_name",
    "class_of",
    "class_values",
    "file_of",
    "forget_types",
    "frame_variables",
    "instance_dict",
    "is_own_frame",
    "is_own_type",
    "module_dict",
    "mro",
    "shown_key",
    "slots_of",
    "text_in",
]

_mro = type.__dict__["__mro__"].__get__
_class_dict = type.__dict__["__dict__"].__get__
_qualified_name = type.__dict__["__qualname__"].__get__
_module_dict = _class_dict(types.ModuleType)["__dict__"].__get__

_PACKAGE = str(Path(__file__).resolve().parent.parent) + "/"
_OPTIMIZED = 1  # as in inspect.CO_OPTIMIZED: variables are not in a dict
_LONGEST_KEY = 40


def class_of(thing: Any) -> type:
    """Its real type, whatever ``__class__`` says."""
    return type(thing)


def mro(kind: type) -> tuple[type, ...]:
    found: tuple[type, ...] = _mro(kind)
    return found


def class_values(kind: type) -> Any:
    """What is defined in a class itself."""
    return _class_dict(kind)


def class_name(kind: type) -> str:
    """As in the class statement, without the functions around it."""
    return str(_qualified_name(kind)).rpartition("<locals>.")[2]


def module_dict(module: Any) -> dict[str, Any]:
    found: dict[str, Any] = _module_dict(module)
    return found


def text_in(values: dict[Any, Any], key: str) -> str | None:
    """A string stored under a key; None if it is anything else."""
    try:
        value = dict.get(values, key)
    except Exception:  # A key of the program is compared with it, and may fail.
        return None
    return value if type(value) is str else None


_slots: dict[type, list[tuple[str, Any]]] = {}


def _slots_of_class(kind: type) -> list[tuple[str, Any]]:
    known = _slots.get(kind)
    if known is None:
        known = _slots[kind] = [
            (name, entry.__get__)
            for part in mro(kind)
            for name, entry in list(class_values(part).items())
            if type(entry) is types.MemberDescriptorType
        ]
    return known


def forget_types() -> None:
    """Drop what was learned: the classes of the program are not kept alive."""
    _slots.clear()


def instance_dict(thing: Any) -> dict[str, Any] | None:
    """The attributes of an instance; None if it has no dict of its own."""
    found = _core.instance_dict(thing)
    return found if type(found) is dict else None


def slots_of(thing: Any) -> Iterator[tuple[str, Any]]:
    """The attributes that are stored in slots, or in the fields of a type written in C."""
    for name, getter in _slots_of_class(type(thing)):
        with contextlib.suppress(Exception):  # It may have no value.
            yield name, getter(thing)


def is_own_type(kind: type) -> bool:
    """Whether the class is one of this package."""
    module = class_values(kind).get("__module__")
    return type(module) is str and (module + ".").startswith("gpumemprof.")


def file_of(frame: types.FrameType) -> str:
    return frame.f_code.co_filename


def is_own_frame(frame: types.FrameType) -> bool:
    """Whether the frame runs code of this package."""
    return file_of(frame).startswith(_PACKAGE)


def _variable_names(code: types.CodeType) -> list[str]:
    names = list(code.co_varnames)
    if hasattr(code, "co_qualname"):  # 3.11: a cell takes the place of its argument
        names += [name for name in code.co_cellvars if name not in code.co_varnames]
    else:
        names += code.co_cellvars
    return [*names, *code.co_freevars]


def _values(frame: types.FrameType, names: list[str]) -> list[tuple[str | None, Any]]:
    pairs = _core.frame_values(frame, len(names))
    return [(names[index] if index < len(names) else None, value) for index, value in pairs]


def _probe() -> bool:
    """Whether the variables of a frame are where they are looked for."""
    first, second = object(), object()
    found = dict(_values(sys._getframe(), _variable_names(sys._getframe().f_code)))
    is_right = found.get("first") is first and type(found.get("second")) is types.CellType
    return is_right and (lambda: second)() is second


_is_readable: bool | None = None


def frame_variables(frame: types.FrameType) -> list[tuple[str | None, Any]]:
    """The variables of a frame; a cell stands for itself, and None names what a calculation holds.

    Up to Python 3.12, asking for ``f_locals`` would make the frame keep what it holds now.
    """
    global _is_readable
    code = frame.f_code
    if not code.co_flags & _OPTIMIZED:
        values = frame.f_locals
        return [*values.items()] if type(values) is dict else []
    if sys.version_info >= (3, 13):  # It is a view, which keeps nothing.
        return [*dict(frame.f_locals).items()]
    if _is_readable is None:
        try:
            _is_readable = _probe()
        except Exception:
            _is_readable = False
    if not _is_readable:
        return []
    try:
        return _values(frame, _variable_names(code))
    except Exception:
        return []


def shown_key(key: Any) -> str:
    """A key as it is written in code; its class if only its own code could print it."""
    kind = type(key)
    if kind in (int, bool, float, bytes, str) or key is None:
        text = repr(key)
    elif kind is tuple and len(key) <= 4:
        text = "(" + ", ".join(map(shown_key, key)) + ("," if len(key) == 1 else "") + ")"
    else:
        return f"<{class_name(kind)}>"
    return text if len(text) <= _LONGEST_KEY else text[: _LONGEST_KEY - 1] + "…"
