"""The cells of a notebook: Python names them by a hash of their text, people by their number."""

from __future__ import annotations

import contextlib
import functools
import sys
from typing import Any

from gpumemprof import _core

__all__ = ["BEGINNING", "cell_name", "name_cells"]

BEGINNING = "Cell In["
"""Of the names of cells, in recordings too."""


def _compiler() -> Any:
    """Which IPython compiles cells with; None outside of it."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "compile", None)


def cell_name(file: str) -> str | None:
    """The cell that this notebook ran under the name of such a file; None for other files."""
    if file.startswith(BEGINNING):
        return file
    names = getattr(_compiler(), "format_code_name", None)
    found = None if names is None else names(file)
    return None if found is None else " ".join(map(str, found))


def name_cells() -> None:
    """From now on, what is recorded of a cell has its name; nothing happens outside of IPython."""
    with contextlib.suppress(Exception):  # IPython may change; names are not worth an error.
        _name_cells(_compiler())


def _name_cells(compiler: Any) -> None:
    cache = getattr(compiler, "cache", None)
    if cache is None or getattr(cache, "names_cells", False):
        return
    for file in list(getattr(compiler, "_filename_map", {})):
        _name(file)

    @functools.wraps(cache)
    def cache_and_name(*args: Any, **kwargs: Any) -> Any:
        file = cache(*args, **kwargs)
        with contextlib.suppress(Exception):
            _name(file)
        return file

    cache_and_name.names_cells = True  # type: ignore[attr-defined]
    compiler.cache = cache_and_name


def _name(file: str) -> None:
    if (name := cell_name(file)) is not None:
        _core.capture_show_file_as(file, name)
