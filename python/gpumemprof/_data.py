"""The files that ship with the package."""

from __future__ import annotations

from pathlib import Path

_FOLDER = Path(__file__).parent / "data"


def demo_path() -> str:
    """Return the path of a small real snapshot: GPT-2 training until it ran out of memory.

    >>> demo_path().endswith("demo.pickle.gz")
    True
    """
    return str(_FOLDER / "demo.pickle.gz")


def viewer_path() -> str:
    """The path of the viewer's HTML page."""
    return str(_FOLDER / "viewer.html")


def ranks_page_path() -> str:
    """The path of the HTML page about all ranks of a job."""
    return str(_FOLDER / "ranks.html")
