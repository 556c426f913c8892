"""Replaces attributes of torch and other libraries, and restores them."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any, Callable

__all__ = ["Patcher"]

_MISSING = object()


class Patcher:
    """Remembers what it replaced; `undo` restores in reverse order."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def set(self, owner: Any, name: str, value: Any) -> Any:
        """Replace an attribute and return the original, or None if there was none."""
        own = vars(owner).get(name, _MISSING) if hasattr(owner, "__dict__") else _MISSING
        before = getattr(owner, name, None)
        setattr(owner, name, value)

        def restore() -> None:
            if own is _MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, own)

        self._undo.append(restore)
        return before

    def set_if_present(self, owner: Any, name: str, value: Any) -> Any:
        """Replace an attribute that only some releases have."""
        return self.set(owner, name, value) if hasattr(owner, name) else None

    def item(self, mapping: MutableMapping[Any, Any], key: Any, value: Any) -> None:
        before = mapping.get(key, _MISSING)
        mapping[key] = value

        def restore() -> None:
            if before is _MISSING:
                mapping.pop(key, None)
            else:
                mapping[key] = before

        self._undo.append(restore)

    def on_undo(self, action: Callable[[], None]) -> None:
        self._undo.append(action)

    def undo(self) -> None:
        while self._undo:
            self._undo.pop()()
