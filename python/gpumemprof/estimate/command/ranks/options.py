"""``--nproc``, ``--nnodes`` and ``--ranks``."""

from __future__ import annotations

import argparse
from typing import Any

from gpumemprof.command_line import CommandParser
from gpumemprof.estimate.ranks.selection import MAX_PER_NODE, usual_ranks

__all__ = ["check_launcher", "parse_ranks"]

_MOST_RANKS = 1 << 20
_MOST_PREDICTED = 64
_LAUNCHERS = ("torch.distributed.run", "torch.distributed.launch", "torchrun")


def parse_ranks(parser: CommandParser, given: argparse.Namespace) -> dict[str, Any]:
    """The options about ranks.

    Raises:
        UsageError: they are not numbers, or do not go together.
    """
    if given.nproc is None:
        for flag, value in (("--nnodes", given.nnodes), ("--ranks", given.ranks)):
            if value is not None:
                raise parser.mistake(f"{flag} needs --nproc, the number of processes on a machine")
        return {}
    if given.nproc.isdecimal() and int(given.nproc) > MAX_PER_NODE:
        raise parser.mistake(
            f"torch simulates at most {MAX_PER_NODE} cards of a machine, and --nproc {given.nproc} "
            f"needs as many; say --nproc {MAX_PER_NODE} --nnodes N for more processes"
        )
    per_node = _number(parser, "--nproc", given.nproc, MAX_PER_NODE)
    nodes = 1
    if given.nnodes is not None:
        nodes = _number(parser, "--nnodes", given.nnodes, _MOST_RANKS // per_node)
    ranks = usual_ranks(per_node, nodes)
    if given.ranks is not None:
        ranks = _ranks(parser, given.ranks, per_node * nodes)
    return {"per_node": per_node, "nodes": nodes, "ranks": ranks}


def _number(parser: CommandParser, flag: str, text: str, most: int) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= most:
        raise parser.mistake(f"{flag} takes a number from 1 to {most}, not {text!r}")
    return int(text)


def _ranks(parser: CommandParser, text: str, size: int) -> list[int]:
    if text == "all":
        ranks = set(range(size))
    else:
        words = text.split(",")
        if not all(word.isdecimal() and int(word) < size for word in words):
            raise parser.mistake(
                f"--ranks takes numbers from 0 to {size - 1} with commas, or all, not {text!r}"
            )
        ranks = {int(word) for word in words}
    if len(ranks) > _MOST_PREDICTED:
        raise parser.mistake(
            f"--ranks {text} is {len(ranks)} processes; predict at most {_MOST_PREDICTED} at a time"
        )
    return sorted(ranks)


def check_launcher(parser: CommandParser, program: list[str]) -> None:
    """A launcher would start processes that are not predicted."""
    name = program[1] if program[0] == "-m" else program[0].rpartition("/")[2]
    if name in _LAUNCHERS:
        raise parser.mistake(
            f"{name} starts other processes; name the program itself, and how many there are: "
            "gpumemprof estimate --nproc 8 train.py"
        )
