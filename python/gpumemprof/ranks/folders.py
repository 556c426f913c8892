"""Whether a folder holds the recordings of ranks, or the chapters of one recording."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

__all__ = ["RECORDING_SUFFIX", "are_ranks_among", "is_recording_folder"]

RECORDING_SUFFIX = ".gmp"


def is_recording_folder(path: Path) -> bool:
    """Whether the folder is one recording: its chapters."""
    return path.suffix == RECORDING_SUFFIX or any(path.glob(f"chapter-*{RECORDING_SUFFIX}"))


def are_ranks_among(words: Sequence[str]) -> bool:
    """Whether ``report``, ``view`` or ``compare`` got a folder of ranks; help comes first."""
    if "-h" in words or "--help" in words:
        return False
    folders = [Path(word) for word in words if not word.startswith("-") and Path(word).is_dir()]
    return any(not is_recording_folder(folder) for folder in folders)
