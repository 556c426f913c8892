"""The folder of a mailbox: which ranks are predicted, which wait, which have ended."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path

__all__ = [
    "all_wait",
    "has_ended",
    "mark_ended",
    "predicted_ranks",
    "prepare",
    "waiting",
    "waiting_ranks",
]

_PREDICTED = "predicted"


def prepare(folder: Path, ranks: Iterable[int]) -> None:
    """Before the first of these ranks starts."""
    folder.mkdir()
    (folder / _PREDICTED).write_text(" ".join(map(str, ranks)), encoding="utf-8")


def predicted_ranks(folder: Path) -> set[int]:
    """The ranks that are predicted, sooner or later."""
    return {int(word) for word in (folder / _PREDICTED).read_text(encoding="utf-8").split()}


def mark_ended(folder: Path, rank: int) -> None:
    """The rank's process is gone."""
    (folder / f"ended.{rank}").touch()


def has_ended(folder: Path, rank: int) -> bool:
    """Whether the rank's process is gone."""
    return (folder / f"ended.{rank}").exists()


@contextlib.contextmanager
def waiting(folder: Path, rank: int) -> Iterator[None]:
    """Within, the rank waits for another one."""
    mark = folder / f"waits.{rank}"
    mark.touch()
    try:
        yield
    finally:
        mark.unlink()


def waiting_ranks(folder: Path) -> int:
    """How many ranks wait."""
    return sum(1 for _ in folder.glob("waits.*"))


def all_wait(folder: Path) -> bool:
    """Whether no rank is left that could send something."""
    ended = sum(1 for _ in folder.glob("ended.*"))
    return waiting_ranks(folder) + ended >= len(predicted_ranks(folder))
