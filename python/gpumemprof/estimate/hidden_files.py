"""Files whose frames are nobody's code: they run only because tensors have no memory."""

from __future__ import annotations

import importlib.util
import os
from functools import cache
from pathlib import Path

__all__ = ["hidden_files"]

_TORCH_FOLDERS = ("_subclasses", "_library", "_decomp", "_refs", "_prims", "_prims_common")
_TORCH_FILES = ("_ops.py", "_meta_registrations.py", "library.py", "utils/_python_dispatch.py")


@cache
def hidden_files() -> tuple[str, ...]:
    """What their paths begin with: our own, and torch's for tensors without memory."""
    here = Path(__file__)
    # Frames have the path by which a file was found, which may lead through a link.
    files = [str(path.parent) + os.sep for path in {here, here.resolve()}]
    found = importlib.util.find_spec("torch")
    if found is not None and found.origin is not None:
        torch = Path(found.origin).parent
        files += [str(torch / name) + os.sep for name in _TORCH_FOLDERS]
        files += [str(torch / name) for name in _TORCH_FILES]
    return tuple(files)
