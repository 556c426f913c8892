"""Files that the program saved tensors to: they exist for the program, but not on the disk.

An estimate has no values to save, and must not overwrite the user's checkpoints.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any, Callable

from gpumemprof.estimate.patches.patcher import Patcher

__all__ = ["VirtualFiles"]


def _key(path: Any) -> str | None:
    try:
        return str(os.path.realpath(os.fspath(path)))
    except (TypeError, ValueError):
        return None


class VirtualFiles:
    """The content of each saved file, by its path; the usual questions about files know them."""

    def __init__(self) -> None:
        self._contents: dict[Any, Any] = {}

    def put(self, path: Any, content: Any) -> None:
        self._contents[_key(path)] = content

    def has(self, path: Any) -> bool:
        return bool(self._contents) and _key(path) in self._contents

    def get(self, path: Any) -> Any:
        return self._contents[_key(path)]

    def install(self, patcher: Patcher) -> None:
        for name in ("exists", "isfile", "lexists"):
            patcher.set(os.path, name, self._or_virtual(getattr(os.path, name), True))
        patcher.set(os.path, "getsize", self._or_virtual(os.path.getsize, 1))
        patcher.set(os.path, "getmtime", self._or_virtual(os.path.getmtime, 0.0))
        patcher.set(Path, "exists", self._or_virtual(Path.exists, True))
        patcher.set(Path, "is_file", self._or_virtual(Path.is_file, True))
        for name in ("remove", "unlink"):
            patcher.set(os, name, self._removing(getattr(os, name)))
        patcher.set(Path, "unlink", self._removing(Path.unlink))
        for owner, name, moves in (
            (os, "rename", True),
            (os, "replace", True),
            (Path, "rename", True),
            (Path, "replace", True),
            (shutil, "move", True),
            (shutil, "copy", False),
            (shutil, "copy2", False),
            (shutil, "copyfile", False),
        ):
            patcher.set(owner, name, self._transferring(getattr(owner, name), moves))

    def _or_virtual(self, real: Callable[..., Any], answer: Any) -> Callable[..., Any]:
        def ask(path: Any, *args: Any, **kwargs: Any) -> Any:
            return answer if self.has(path) else real(path, *args, **kwargs)

        return ask

    def _removing(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def remove(path: Any, *args: Any, **kwargs: Any) -> Any:
            if self.has(path):
                del self._contents[_key(path)]
                return None
            return real(path, *args, **kwargs)

        return remove

    def _transferring(self, real: Callable[..., Any], moves: bool) -> Callable[..., Any]:
        def transfer(source: Any, target: Any, *args: Any, **kwargs: Any) -> Any:
            if not self.has(source):
                return real(source, target, *args, **kwargs)
            content = self.get(source)
            if moves:
                del self._contents[_key(source)]
            goal = Path(target)
            if goal.is_dir():
                goal = goal / Path(source).name
            self.put(goal, content)
            return goal

        return transfer
