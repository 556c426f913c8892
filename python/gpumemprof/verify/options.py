"""The command line of ``gpumemprof advise --verify``."""

from __future__ import annotations

import argparse
import itertools
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gpumemprof import _core
from gpumemprof.command_line import CommandParser
from gpumemprof.errors import UsageError
from gpumemprof.verify import apply

__all__ = ["HELP", "Options", "is_wanted", "parse", "usage"]

HELP = f"""\
Run a program with a remedy applied, and compare prediction and measurement.

Usage: gpumemprof advise [FILE] --verify REMEDIES [OPTIONS] -- PROGRAM

PROGRAM is SCRIPT [ARGUMENTS...] or -m MODULE [ARGUMENTS...]. FILE is a
recording of the unchanged program; without it, the program first runs
unchanged. REMEDIES are names separated by commas, each of which gets its own
run; A+B applies both in one run. These can be applied:
{textwrap.fill(", ".join(apply.NAMES), 78, initial_indent="  ", subsequent_indent="  ")}

Options:
  --checkpoint-class NAME  Checkpoint modules of this class (default: the most
                           frequent one)
  --keep FOLDER            Keep the recordings in this folder
  --with FILE              A recording with another batch size
  --batch SAMPLES          The number of samples in a recorded batch
  --device DEVICE          Compare only this device
  --cpu                    Record CPU tensors; the default without CUDA
  --json                   Print the comparison as JSON; the program's output
                           goes to standard error
  -h, --help               Print this help

If the program fails, the command ends with its exit code.
"""

_FAMILY = {entry.name: entry.family for entry in _core.remedies()}


@dataclass(frozen=True)
class Options:
    """What the user asked for."""

    file: str | None
    sets: list[list[str]]
    """Remedies; those in one list are applied together."""
    program: list[str]
    """Its script, or ``-m`` and a module, and its arguments."""
    checkpoint_class: str | None
    keep: str | None
    other: str | None
    batch: int | None
    device: str | None
    cpu: bool
    json: bool

    @property
    def remedies(self) -> list[str]:
        """All of them, of all sets."""
        return [name for names in self.sets for name in names]


def is_wanted(words: Sequence[str]) -> bool:
    """Whether the words after ``advise`` ask for this.

    >>> is_wanted(["--verify", "fused", "--", "train.py"]), is_wanted(["run.gmp"])
    (True, False)
    """
    ours = list(words[: words.index("--")]) if "--" in words else list(words)
    return any(word == "--verify" or word.startswith("--verify=") for word in ours)


_COMMAND = "gpumemprof advise --verify"


def usage(message: str) -> UsageError:
    """A mistake in the command line."""
    return UsageError(message, "usage", "", f"see {_COMMAND} --help")


_VALUES = ("--verify", "--checkpoint-class", "--keep", "--with", "--batch", "--device")
_MISSING = object()


def _parser() -> CommandParser:
    parser = CommandParser(_COMMAND, HELP)
    parser.add_argument("file", nargs="?")
    for name in _VALUES:
        # Without a value is an error later, so that a help flag may take its place.
        parser.add_argument(name, nargs="?", const=_MISSING, action="append", default=[])
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--fit", nargs="?", action="append")
    parser.add_argument("-m", dest="module", nargs=argparse.REMAINDER)
    return parser


def parse(arguments: Sequence[str]) -> Options | None:
    """The options; None if help is wanted.

    Raises:
        UsageError: an option is unknown, or does not fit the others.
    """
    words = list(arguments)
    end = words.index("--") if "--" in words else len(words)
    program = words[end:]
    given = _parser().parse(words[:end])
    if given.help:
        return None
    if given.module is not None:
        program = ["-m", *given.module, *program]
    elif program:
        del program[0]
    if given.fit is not None:
        raise usage("--fit and --verify cannot be combined")
    values = {name: vars(given)[name[2:].replace("-", "_")] for name in _VALUES}
    for name, found in values.items():
        if _MISSING in found:
            raise usage(f"{name} needs a value")
    options = Options(
        file=given.file,
        sets=[
            _remedies(names) for value in values["--verify"] for names in value.split(",") if names
        ],
        program=program,
        checkpoint_class=_last(values["--checkpoint-class"]),
        keep=_last(values["--keep"]),
        other=_last(values["--with"]),
        batch=_batch(_last(values["--batch"])),
        device=_last(values["--device"]),
        cpu=given.cpu,
        json=given.json,
    )
    _check(options)
    return options


def _last(values: list[str]) -> str | None:
    return values[-1] if values else None


def _batch(value: str | None) -> int | None:
    if value is None:
        return None
    if not value.isdecimal() or int(value) == 0:
        raise usage(f"--batch takes a number above 0, not {value!r}")
    return int(value)


def _remedies(words: str) -> list[str]:
    names = list(dict.fromkeys(word.strip() for word in words.split("+")))
    for name in names:
        if name not in apply.NAMES:
            raise usage(
                f"{name!r} cannot be applied to a program; these can: {', '.join(apply.NAMES)}"
            )
    for one, other in itertools.combinations(sorted(names), 2):
        if _FAMILY[one] == _FAMILY[other]:
            raise usage(f"{one} and {other} cannot be combined")
    return names


def _check(options: Options) -> None:
    if not options.sets:
        raise usage(f"--verify needs a remedy, one of {', '.join(apply.NAMES)}")
    if not options.program:
        raise usage("the program is missing; it comes after --, as in -- train.py")
    if options.program[0] == "-m" and len(options.program) == 1:
        raise usage("-m needs a module")
    if options.program[0] != "-m" and not Path(options.program[0]).exists():
        raise UsageError("no such script", "usage", options.program[0], "name one after --")
    has_checkpointing = any(name.startswith("checkpointing") for name in options.remedies)
    if options.checkpoint_class is not None and not has_checkpointing:
        raise usage("--checkpoint-class needs the remedy checkpointing")
