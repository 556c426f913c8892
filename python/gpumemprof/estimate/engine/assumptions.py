"""What a prediction assumed, by the program's line: values, kernels, workspaces."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from gpumemprof.estimate.engine.user_lines import Line, current_line

__all__ = ["Assumption", "Assumptions", "Kind"]

# value: what .item() and the like returned; shape: how many elements depend on unknown values;
# execution: the program was run in another way than on a GPU; failure: there it would end here.
Kind = Literal["value", "shape", "kernel", "workspace", "execution", "behaviour", "failure"]


@dataclass
class Assumption:
    """One sentence about one line; `count` is how often it was made there."""

    kind: Kind
    text: str
    line: Line
    count: int = 0


class Assumptions:
    """Collects assumptions; threads of the program and of autograd may add some."""

    def __init__(self) -> None:
        # The compiler looks at frames that are called within, and may note something itself.
        self._lock = threading.RLock()
        self._by_key: dict[tuple[Kind, str, Line], Assumption] = {}

    def add(self, kind: Kind, text: str, line: Line | None = None) -> int:
        """Note it, and return how often it has now been made at this line."""
        where = current_line() if line is None else line
        with self._lock:
            key = (kind, text, where)
            found = self._by_key.get(key)
            if found is None:
                found = self._by_key[key] = Assumption(kind, text, where)
            found.count += 1
            return found.count

    def clear(self) -> None:
        with self._lock:
            self._by_key.clear()

    def __iter__(self) -> Iterator[Assumption]:
        with self._lock:
            return iter(list(self._by_key.values()))

    def __len__(self) -> int:
        return len(self._by_key)
