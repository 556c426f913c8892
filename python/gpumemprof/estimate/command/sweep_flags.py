"""The program's own flags that ``--sweep`` varies: how they are written, and which it has."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gpumemprof.errors import UsageError

__all__ = [
    "Combination",
    "SweptFlag",
    "combinations",
    "exact_flags",
    "flags_in",
    "parse_sweep",
    "with_values",
]

_MOST_RUNS = 100
_ON = ("true", "on", "yes", "1")
_OFF = ("false", "off", "no", "0")

Combination = tuple[str, ...]
"""One value for each flag."""


@dataclass(frozen=True)
class SweptFlag:
    """A flag of the program and the values to try."""

    flag: str
    """``--batch``."""
    values: tuple[str, ...]
    is_switch: bool = field(default=False, repr=False)
    """Whether the program's flag takes no value: it is given, or it is not."""
    opposite: str = field(default="", repr=False)
    """Of a switch: ``--no-amp``, if there is one."""

    @property
    def name(self) -> str:
        """Without dashes: the head of a column."""
        return self.flag.lstrip("-")


def parse_sweep(text: str) -> SweptFlag:
    """Parse ``batch=1,2,4``.

    >>> parse_sweep("batch=1,2"), parse_sweep("-b=8").flag
    (SweptFlag(flag='--batch', values=('1', '2')), '-b')

    Raises:
        UsageError: it has another form.
    """
    flag, _, listed = text.partition("=")
    values = tuple(dict.fromkeys(value.strip() for value in listed.split(",") if value.strip()))
    name = flag.strip()
    if not name.strip("-") or not values:
        raise UsageError(
            f"--sweep takes a flag and its values, not '{text}'",
            "usage",
            "",
            "try --sweep batch=1,2,4",
        )
    return SweptFlag(name if name.startswith("-") else f"--{name}", values)


def combinations(sweeps: Sequence[SweptFlag]) -> list[Combination]:
    """Every combination of values, the last flag varying fastest.

    Raises:
        UsageError: they are too many.
    """
    found = list(itertools.product(*(swept.values for swept in sweeps)))
    if len(found) > _MOST_RUNS:
        raise UsageError(
            f"--sweep asks for {len(found)} runs of the program, of at most {_MOST_RUNS}",
            "usage",
            "",
            "give fewer values",
        )
    return found


def with_values(
    arguments: Sequence[str], sweeps: Sequence[SweptFlag], values: Combination
) -> list[str]:
    """The program's arguments with these values, in the place of those it was given.

    >>> with_values(["--batch", "4", "--lr=1"], [SweptFlag("--batch", ("8",))], ("8",))
    ['--batch', '8', '--lr=1']
    >>> with_values(["--lr=1"], [SweptFlag("--lr", ("2",))], ("2",))
    ['--lr=2']
    >>> with_values(["data"], [SweptFlag("--batch", ("8",))], ("8",))
    ['data', '--batch', '8']
    >>> amp = SweptFlag("--amp", ("true", "false"), is_switch=True)
    >>> with_values(["data"], [amp], ("true",)), with_values(["--amp", "data"], [amp], ("false",))
    (['data', '--amp'], ['data'])
    """
    words = list(arguments)
    for swept, value in zip(sweeps, values):
        if swept.is_switch:
            words = [word for word in words if word not in (swept.flag, swept.opposite)]
            wanted = swept.flag if value.lower() in _ON else swept.opposite
            words += [wanted] if wanted else []
            continue
        for place, word in enumerate(words):
            if word == swept.flag and place + 1 < len(words):
                words[place + 1] = value
                break
            if word.startswith(f"{swept.flag}="):
                words[place] = f"{swept.flag}={value}"
                break
        else:
            words += [swept.flag, value]
    return words


def exact_flags(program: Sequence[str], sweeps: Sequence[SweptFlag]) -> list[SweptFlag]:
    """The flags as the program spells them.

    A flag that is among its arguments is right. Otherwise the script's text is searched: ``batch``
    finds ``--batch-size`` if nothing else there begins so. A flag that is not in it is tried as it
    was given, since the program may take its flags from elsewhere.

    Raises:
        UsageError: several flags of the program begin so, or a switch is given other values.
    """
    written = flags_in(program)
    switches = _switches_in(program)
    found = (_exact(program, swept, written) for swept in sweeps)
    return [
        _as_switch(swept, switches[swept.flag]) if swept.flag in switches else swept
        for swept in found
    ]


def _as_switch(swept: SweptFlag, opposite: str) -> SweptFlag:
    for value in swept.values:
        if value.lower() not in (*_ON, *_OFF):
            raise UsageError(
                f"{swept.flag} of the program takes no value, so it cannot be {value!r}",
                "usage",
                "",
                f"write --sweep {swept.name}=true,false",
            )
    return SweptFlag(swept.flag, swept.values, is_switch=True, opposite=opposite)


def _exact(program: Sequence[str], swept: SweptFlag, written: set[str]) -> SweptFlag:
    given = {word.partition("=")[0] for word in program[1:]}
    if swept.flag in given or swept.flag in written:
        return swept
    known = given | written
    for flag in (swept.flag.replace("_", "-"), "--" + swept.name.replace("-", "_")):
        if flag in known:
            return SweptFlag(flag, swept.values)
    longer = sorted(flag for flag in known if flag.startswith((f"{swept.flag}-", f"{swept.flag}_")))
    if len(longer) > 1:
        raise UsageError(
            f"{program[0]} has several flags that begin with {swept.flag}: {', '.join(longer)}",
            "usage",
            "",
            f"write --sweep {longer[0].lstrip('-')}=… for one of them",
        )
    return SweptFlag(longer[0], swept.values) if longer else swept


def _switches_in(program: Sequence[str]) -> dict[str, str]:
    """Flags without a value, and their opposites, as argparse and click define them."""
    found = {}
    for node in _nodes_of(program):
        if not isinstance(node, ast.Call):
            continue
        settings = {each.arg: ast.unparse(each.value).split(".")[-1] for each in node.keywords}
        action = settings.get("action", "").strip("'\"")
        has_opposite = action == "BooleanOptionalAction"
        is_switch = action in ("store_true", "store_false") or settings.get("is_flag") == "True"
        if has_opposite or is_switch:
            for flag in filter(None, map(_flag, node.args)):
                found[flag] = f"--no-{flag.lstrip('-')}" if has_opposite else ""
    return found


def flags_in(program: Sequence[str]) -> set[str]:
    """All texts in the script that look like flags."""
    return {flag for flag in map(_flag, _nodes_of(program)) if flag}


def _nodes_of(program: Sequence[str]) -> Iterator[ast.AST]:
    try:
        return ast.walk(ast.parse(Path(program[0]).read_bytes()))
    except (OSError, SyntaxError, ValueError):
        return iter(())


def _flag(node: ast.AST) -> str:
    """The text, if it looks like a flag; else empty."""
    text = node.value if isinstance(node, ast.Constant) else None
    return text if isinstance(text, str) and text.startswith("-") and " " not in text else ""
