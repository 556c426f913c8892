"""How one Python object holds another: by index, by key, as an attribute, in a closure, …

Containers are copied before they are searched, since other threads may change them meanwhile.
Nothing of the program is called, not even to compare keys: only identity counts.
"""

from __future__ import annotations

import _thread
import functools
import types
import weakref
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

from gpumemprof.holders.chain import Link
from gpumemprof.holders.reading import (
    class_name,
    class_values,
    frame_variables,
    instance_dict,
    shown_key,
    slots_of,
)
from gpumemprof.torch_calls.graphs import hooks_of, is_graph_node

__all__ = ["function_name", "links_to"]

Found = Iterator[tuple[int, Link]]

_LOCAL: type = _thread._local
_CACHE = type(functools.lru_cache(maxsize=1)(int))


def function_name(code: types.CodeType) -> str:
    """As ``train()``."""
    return f"{getattr(code, 'co_qualname', code.co_name).rpartition('<locals>.')[2]}()"


def _in_dict(holder: dict[Any, Any], wanted: Any) -> Found:
    for key, value in list(dict.items(holder)):
        if id(value) in wanted:
            text = f"[{shown_key(key)}]"
            # Numbers, as of steps, are written as a range.
            yield id(value), Link("item", text, key) if type(key) is int else Link("key", text)
        if id(key) in wanted:
            yield id(key), Link("arrow", "a key of the dict")


def _in_sequence(holder: Iterable[Any], wanted: Any) -> Found:
    for index, value in enumerate(holder):
        if id(value) in wanted:
            yield id(value), Link("item", f"[{index}]", index)


def _in_tuple(holder: tuple[Any, ...], wanted: Any) -> Found:
    fields = class_values(type(holder)).get("_fields") if type(holder) is not tuple else None
    is_named = type(fields) is tuple and all(type(name) is str for name in fields)
    for index, value in enumerate(tuple.__iter__(holder)):
        if id(value) in wanted:
            if is_named and fields is not None and index < len(fields):
                yield id(value), Link("attribute", f".{fields[index]}")
            else:
                yield id(value), Link("item", f"[{index}]", index)


def _in_function(holder: types.FunctionType, wanted: Any) -> Found:
    name = function_name(holder.__code__)
    if id(holder.__closure__) in wanted:
        names = holder.__code__.co_freevars
        yield id(holder.__closure__), Link("names", "closure variable ", None, names, f" of {name}")
    if id(holder.__defaults__) in wanted and holder.__defaults__ is not None:
        code = holder.__code__
        names = code.co_varnames[: code.co_argcount][-len(holder.__defaults__) :]
        yield (
            id(holder.__defaults__),
            Link("names", "default argument ", None, names, f" of {name}"),
        )
    keywords = holder.__kwdefaults__
    if keywords is not None and id(keywords) in wanted:
        yield id(keywords), Link("names", "default argument ", None, (), f" of {name}")
    attributes = holder.__dict__
    if id(attributes) in wanted:
        yield id(attributes), Link("namespace")


def _in_frame(holder: types.FrameType, wanted: Any, prefix: str = "frame ") -> Found:
    place = f"{prefix}{function_name(holder.f_code)} line {holder.f_lineno}, "
    is_known = False
    for name, value in frame_variables(holder):
        if id(value) in wanted:
            is_known = True
            if name is None:
                yield id(value), Link("arrow", f"{place}a temporary")
            else:
                yield id(value), Link("arrow", f"{place}local ", None, (name,))
    if not is_known:
        for value in _direct(holder, wanted):
            yield id(value), Link("arrow", f"{place}a local")


def _in_suspended(holder: Any, wanted: Any) -> Found:
    kind = type(holder).__name__.replace("_", " ")
    frame = None
    for name in ("gi_frame", "cr_frame", "ag_frame"):
        entry = class_values(type(holder)).get(name)
        if entry is not None:
            frame = entry.__get__(holder)
    if frame is not None:
        yield from _in_frame(frame, wanted, f"{kind} ")


def _in_error(holder: BaseException, wanted: Any) -> Found:
    base = class_values(BaseException)
    for name, text in (
        ("__traceback__", "traceback"),
        ("__cause__", "its cause, an exception"),
        ("__context__", "an exception handled before it"),
    ):
        value = base[name].__get__(holder)
        if value is not None and id(value) in wanted:
            yield id(value), Link("arrow", text)
    value = base["args"].__get__(holder)
    if id(value) in wanted:
        yield id(value), Link("attribute", ".args")
    yield from _in_instance(holder, wanted)


def _in_traceback(holder: types.TracebackType, wanted: Any) -> Found:
    if id(holder.tb_frame) in wanted:
        yield id(holder.tb_frame), Link("contents")
    if holder.tb_next is not None and id(holder.tb_next) in wanted:
        yield id(holder.tb_next), Link("contents")


def _in_method(holder: types.MethodType, wanted: Any) -> Found:
    for name in ("__self__", "__func__"):
        value = class_values(types.MethodType)[name].__get__(holder)
        if id(value) in wanted:
            yield id(value), Link("attribute", f".{name}")


def _in_partial(holder: Any, wanted: Any) -> Found:
    own = class_values(functools.partial)
    for name in ("func", "args", "keywords"):
        value = own[name].__get__(holder)
        if id(value) in wanted:
            yield id(value), Link("attribute", f".{name}")
    yield from _in_instance(holder, wanted)


def _direct(holder: Any, wanted: Any) -> list[Any]:
    import gc

    return [value for value in gc.get_referents(holder) if id(value) in wanted]


def _in_cache(holder: Any, wanted: Any) -> Found:
    for value in _direct(holder, wanted):
        if type(value) is dict:
            attributes = instance_dict(holder)
            if value is attributes:
                yield id(value), Link("namespace")
            else:
                yield id(value), Link("cache", "a result kept by functools.cache")
        else:
            yield id(value), Link("arrow", "a result kept by functools.lru_cache")


def _in_class(holder: type, wanted: Any) -> Found:
    values = class_values(holder)
    is_found = False
    for name, value in list(values.items()):
        if id(value) in wanted:
            is_found = True
            yield id(value), Link("attribute", f".{name}")
    if not is_found:
        for value in _direct(holder, wanted):
            yield id(value), Link("namespace" if type(value) is dict else "contents")


def _in_instance(holder: Any, wanted: Any) -> Found:
    attributes = instance_dict(holder)
    if attributes is not None:
        if id(attributes) in wanted:
            yield id(attributes), Link("namespace")
        for name, value in list(dict.items(attributes)):
            if id(value) in wanted and type(name) is str:
                yield id(value), Link("attribute", f".{name}")
    for name, value in slots_of(holder):
        if id(value) in wanted and value is not attributes:
            is_dict = name == "__dict__"  # as types.SimpleNamespace has it
            yield id(value), Link("namespace") if is_dict else Link("attribute", f".{name}")


def _in_container(holder: Any, wanted: Any) -> Found | None:
    """None if it is not one."""
    kind = type(holder)
    if issubclass(kind, dict):
        return _in_dict(holder, wanted)
    if issubclass(kind, list):
        return _in_sequence(list.__iter__(holder), wanted)
    if issubclass(kind, tuple):
        return _in_tuple(holder, wanted)
    if issubclass(kind, deque):
        return _in_sequence(deque.copy(holder) if kind is deque else _copied(holder), wanted)
    if issubclass(kind, (set, frozenset)):
        return _in_set(holder, wanted)
    return None


def _copied(holder: Any) -> list[Any]:
    return [*deque.__iter__(holder)]


def _in_set(holder: Any, wanted: Any) -> Found:
    base = set if issubclass(type(holder), set) else frozenset
    for value in list(base.__iter__(holder)):
        if id(value) in wanted:
            yield id(value), Link("arrow", "an element of the set")


_SPECIAL: dict[type, Any] = {
    types.FunctionType: _in_function,
    types.FrameType: _in_frame,
    types.GeneratorType: _in_suspended,
    types.CoroutineType: _in_suspended,
    types.AsyncGeneratorType: _in_suspended,
    types.TracebackType: _in_traceback,
    types.MethodType: _in_method,
    _CACHE: _in_cache,
}


def _of(holder: Any, wanted: Any) -> Found:
    kind = type(holder)
    special = _SPECIAL.get(kind)
    if special is not None:
        yield from special(holder, wanted)
    elif kind is types.CellType:
        yield from ((id(value), Link("contents")) for value in _direct(holder, wanted))
    elif issubclass(kind, type):
        yield from _in_class(holder, wanted)
    elif issubclass(kind, BaseException):
        yield from _in_error(holder, wanted)
    elif issubclass(kind, functools.partial):
        yield from _in_partial(holder, wanted)
    elif issubclass(kind, _LOCAL):
        yield from ((id(value), Link("local")) for value in _direct(holder, wanted))
    elif issubclass(kind, weakref.ref):
        yield from (
            (id(value), Link("arrow", "callback of a weak reference"))
            for value in _direct(holder, wanted)
        )
    else:
        container = _in_container(holder, wanted)
        if container is not None:
            yield from container
        yield from _in_instance(holder, wanted)
        for name, value in hooks_of(holder):
            if id(value) in wanted:
                yield id(value), Link("attribute", f".{name}")


def links_to(holder: Any, wanted: Any) -> list[tuple[int, Link]]:
    """How it holds each of the wanted objects, which are given by their ids.

    What holds something in a way that is not known is named by its class.
    """
    try:
        found = list(_of(holder, wanted))
    except Exception:  # It changed while it was read, or is of a type that allows no reading.
        found = []
    if found:
        return found
    try:
        name = class_name(type(holder))
        text = "hooks of " + name if is_graph_node(holder) else name
        return [(id(value), Link("arrow", text)) for value in _direct(holder, wanted)]
    except Exception:
        return []
