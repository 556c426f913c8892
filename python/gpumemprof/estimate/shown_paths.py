"""Files of the program, as messages name them."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["shown_path"]


def _current_folder() -> str:
    try:
        return str(Path.cwd())
    except OSError:
        return os.sep


# The user's; a program may change to another folder, or delete the one that it is in.
_STARTED_IN = _current_folder()


def shown_path(file: str) -> str:
    """Relative to the folder in which the program was started."""
    return os.path.relpath(Path(_STARTED_IN) / file, _STARTED_IN)
