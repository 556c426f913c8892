"""The limits that a test's marks give."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple

from gpumemprof import _core
from gpumemprof.errors import UsageError

__all__ = ["Limit", "read_mark"]


class Limit(NamedTuple):
    """What one mark says."""

    bytes: int
    device: Any
    warmups: int


def _read(name: str, limit: Any, warmups: Any, device: Any) -> Limit:
    size = _core.parse_bytes(limit) if isinstance(limit, str) else limit
    if isinstance(size, bool) or not isinstance(size, int) or size < 0:
        raise UsageError(f'{name} takes a size such as "2 GiB", but has {limit!r}', "usage")
    if isinstance(warmups, bool) or not isinstance(warmups, int) or warmups < 0:
        raise UsageError(f"{name} takes a number of warmups, but has {warmups!r}", "usage")
    return Limit(size, device, warmups)


def _memory(limit: Any, device: Any = None) -> Limit:
    return _read("limit_gpu_memory", limit, 0, device)


def _leaks(limit: Any, warmups: Any = 0, device: Any = None) -> Limit:
    return _read("limit_gpu_leaks", limit, warmups, device)


_ARGUMENTS = {
    "limit_gpu_memory": "(limit, device=None)",
    "limit_gpu_leaks": "(limit, warmups=0, device=None)",
}
_READERS: dict[str, Callable[..., Limit]] = {"limit_gpu_memory": _memory, "limit_gpu_leaks": _leaks}


def read_mark(mark: Any) -> Limit | None:
    """The limit that a mark of pytest gives; None without a mark.

    Raises:
        UsageError: the mark is wrong.
    """
    if mark is None:
        return None
    try:
        return _READERS[mark.name](*mark.args, **mark.kwargs)
    except TypeError:
        given = [repr(arg) for arg in mark.args]
        given += [f"{name}={value!r}" for name, value in mark.kwargs.items()]
        raise UsageError(
            f'{mark.name}{_ARGUMENTS[mark.name]} takes a size such as "2 GiB", but is '
            f"{mark.name}({', '.join(given)})",
            "usage",
        ) from None
