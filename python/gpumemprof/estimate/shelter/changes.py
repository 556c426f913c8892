"""What a predicted program changed in its view of the machine's files."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from gpumemprof.estimate.shelter.overlay import Layer

__all__ = ["Changes", "Created", "overlay_changes", "redirected_changes"]

_MAX_LISTED = 10_000
_OPAQUE = ("trusted.overlay.opaque", "user.overlay.opaque")


@dataclass
class Created:
    """A file, or a folder with all that lies in it."""

    path: str
    files: int = 0
    size_bytes: int = 0


@dataclass
class Changes:
    """Paths as the program knows them; what lies in a created or removed folder is not listed."""

    created: list[Created] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)

    def in_order(self) -> Changes:
        """Sorted, and no more than can be listed."""
        return Changes(
            sorted(self.created, key=lambda entry: entry.path)[:_MAX_LISTED],
            sorted(self.changed)[:_MAX_LISTED],
            sorted(self.removed)[:_MAX_LISTED],
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def read(cls, found: dict[str, Any]) -> Changes:
        """The reverse of `to_json`."""
        created = [Created(**entry) for entry in found["created"]]
        return cls(created, found["changed"], found["removed"])


def overlay_changes(layers: Iterable[Layer], root: str) -> Changes:
    """What is in overlays; `root` is the folder in which they are mounted.

    For a process that sees the real files under their own paths.
    """
    found = Changes()
    for layer in layers:
        _compare(found, f"/proc/self/fd/{layer.upper}", layer.path)
    for entry in os.scandir(root):
        if not os.path.lexists(f"/{entry.name}"):
            found.created.append(_created(entry, f"/{entry.name}"))
    return found.in_order()


def redirected_changes(scratch: str) -> Changes:
    """What the preloaded library wrote to the scratch folder."""
    found = Changes()
    written, removed = os.path.join(scratch, "written"), os.path.join(scratch, "removed")
    if os.path.isdir(written):
        _compare(found, written, "/")
    # A file marks what was removed, with all that it held.
    for folder, _, names in os.walk(removed):
        for name in names:
            path = f"{folder}/{name}"[len(removed) :]
            if not os.path.lexists(written + path):
                found.removed.append(path)
            elif os.path.isdir(written + path) and os.path.isdir(path):
                found.removed += _missing(path, os.listdir(written + path))
    return found.in_order()


def _compare(found: Changes, written: str, path: str) -> None:
    """`written` is the folder of the scratch folder in which changes of `path` are."""
    names = set()
    for entry in os.scandir(written):
        names.add(entry.name)
        real = os.path.join(path, entry.name)
        status = entry.stat(follow_symlinks=False)
        if _is_whiteout(status):
            if os.path.lexists(real):
                found.removed.append(real)
        elif not os.path.lexists(real):
            found.created.append(_created(entry, real))
        elif stat.S_ISDIR(status.st_mode) and os.path.isdir(real):
            _compare(found, entry.path, real)
        else:
            found.changed.append(real)
    if _is_opaque(written):
        found.removed += _missing(path, names)


def _missing(path: str, names: Collection[str]) -> list[str]:
    return [os.path.join(path, name) for name in os.listdir(path) if name not in names]


def _is_whiteout(status: os.stat_result) -> bool:
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == 0


def _is_opaque(folder: str) -> bool:
    """Whether what the real folder holds is hidden."""
    try:
        return any(
            os.getxattr(folder, name) == b"y" for name in os.listxattr(folder) if name in _OPAQUE
        )
    except OSError:
        return False


def _created(entry: os.DirEntry[str], path: str) -> Created:
    status = entry.stat(follow_symlinks=False)
    if not stat.S_ISDIR(status.st_mode):
        return Created(path, 1, status.st_size)
    made = Created(path)
    for folder, _, names in os.walk(entry.path):
        for name in names:
            each = os.lstat(os.path.join(folder, name))
            if not _is_whiteout(each):
                made.files += 1
                made.size_bytes += each.st_size
    return made
