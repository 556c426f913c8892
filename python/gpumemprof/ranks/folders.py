"""Whether a folder holds the recordings of ranks, or the chapters of one recording."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

__all__ = ["RECORDING_SUFFIX", "are_ranks_named", "is_recording_folder"]

RECORDING_SUFFIX = ".gmp"


def is_recording_folder(path: Path) -> bool:
    """Whether the folder is one recording: its chapters."""
    return path.suffix == RECORDING_SUFFIX or any(path.glob(f"chapter-*{RECORDING_SUFFIX}"))


def are_ranks_named(words: Sequence[str]) -> bool:
    """Whether ``report`` was given a folder of ranks."""
    named = [Path(word) for word in words if not word.startswith("-")]
    return len(named) == 1 and named[0].is_dir() and not is_recording_folder(named[0])
