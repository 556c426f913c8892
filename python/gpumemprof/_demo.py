"""The recording that ships with the package."""

from __future__ import annotations

from pathlib import Path


def demo_path() -> str:
    """The path of a small real snapshot: GPT-2 in training, until it ran out of memory.

    >>> demo_path().endswith("demo.pickle.gz")
    True
    """
    return str(Path(__file__).parent / "data" / "demo.pickle.gz")
