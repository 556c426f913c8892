"""Flags of ``estimate`` that stand behind the script, where people write them too.

What follows the script belongs to it. But ``train.py --fit 24GiB`` can only mean one thing if
train.py has no such flag: the program would refuse it, or ignore it without a word.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable

from gpumemprof.errors import Error
from gpumemprof.estimate.command.sweep_flags import flags_in, parse_sweep
from gpumemprof.estimate.command.units import parse_size

__all__ = ["Split", "split_own_flags"]


def _is_size(text: str) -> bool:
    parse_size("--fit", text)
    return not text.isdecimal()  # A number may be anything.


def _is_sweep(text: str) -> bool:
    return len(parse_sweep(text).values) > 1


# Values that hardly another program's flag of this name would have.
_OWN: dict[str, Callable[[str], bool]] = {"--fit": _is_size, "--sweep": _is_sweep}


@dataclass
class Split:
    """The program without them, and their values by flag."""

    program: list[str]
    own: dict[str, list[str]] = field(default_factory=dict)


def split_own_flags(program: Sequence[str]) -> Split:
    """Find them; a module's text is not looked for, so that what follows it is its own."""
    found = Split(list(program))
    if not program or program[0] == "-m":
        return found
    for flag in _OWN:
        while (place := _place_of(flag, found.program)) is not None and not _has(program[0], flag):
            found.own.setdefault(flag, []).append(found.program[place + 1])
            del found.program[place : place + 2]
    return found


def _place_of(flag: str, program: list[str]) -> int | None:
    words = program[: program.index("--")] if "--" in program else program
    for place in range(1, len(words) - 1):
        if words[place] == flag and _is_own(flag, words[place + 1]):
            return place
    return None


def _is_own(flag: str, value: str) -> bool:
    try:
        return _OWN[flag](value)
    except Error:
        return False


def _has(script: str, flag: str) -> bool:
    """Whether the script has the flag: as a text, or as a name from which a library makes one."""
    if flag in flags_in([script]):
        return True
    name = flag.lstrip("-")
    try:
        tree = ast.parse(Path(script).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return True  # It is not Python, or not readable: nothing is known about it.
    return any(
        (isinstance(node, ast.arg) and node.arg == name)
        or (
            isinstance(node, ast.AnnAssign)
            and isinstance(node.target, ast.Name)
            and node.target.id == name
        )
        for node in ast.walk(tree)
    )
