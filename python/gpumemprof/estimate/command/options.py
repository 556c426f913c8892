"""The command line of ``gpumemprof estimate``."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gpumemprof.command_line import CommandParser
from gpumemprof.estimate.cards import DEFAULT, Card, find_card
from gpumemprof.estimate.command.own_flags import split_own_flags
from gpumemprof.estimate.command.ranks.options import check_launcher, parse_ranks
from gpumemprof.estimate.command.sweep_flags import SweptFlag, parse_sweep
from gpumemprof.estimate.command.units import parse_size
from gpumemprof.estimate.ranks.world import World, rank_path

__all__ = ["ALL", "DEFAULT_SECONDS", "DEFAULT_STEPS", "HELP", "Options", "parse"]

DEFAULT_STEPS = 3
DEFAULT_SECONDS = 600
ALL = "all"

HELP = f"""\
Predict the GPU memory of a program, on a machine without a GPU.

Usage: gpumemprof estimate [OPTIONS] SCRIPT [ARGUMENTS...]
       gpumemprof estimate [OPTIONS] -m MODULE [ARGUMENTS...]
       gpumemprof estimate --gpus

The program runs unchanged, on tensors that have shapes but no contents.
Nothing is computed on a GPU, even if there is one. No file is changed: what it
writes and removes it sees itself, and the answer lists it.

Options:
  --gpu CARD[:SIZE]     The card to predict for, or all (default: {DEFAULT})
  --gpus                List the cards
  --steps N             Stop after N optimizer steps (default: {DEFAULT_STEPS}), or all
  --limit SECONDS       Stop after this time (default: {DEFAULT_SECONDS})
  -o, --output FILE     Keep the prediction as a recording
  -f, --force           Replace FILE if it exists
  --fit SIZE            Find remedies that make it fit into SIZE, such as 24GiB,
                        and predict again with them
  --sweep FLAG=A,B,...  Predict with each value of one of the program's flags;
                        several --sweep try every combination
  --nproc N             Predict N processes per machine, each with a GPU, as
                        torchrun starts them
  --nnodes N            Number of machines (default: 1)
  --ranks A,B,...       Predict these ranks, or all
  --assume FILE:LINE=N  Take the value computed at this line to be N
  --let-write FOLDER    Let the program write there for real, such as its folder
                        for downloads; may be given several times
  --calibration FILE    Use what gpumemprof calibrate measured on a card
  --json                Print JSON; the program's own output goes to stderr
  -h, --help            Print this help

Everything after SCRIPT or MODULE belongs to the program.
Exit codes: 0 it fits, 1 it does not fit or may not fit, 2 wrong usage,
3 the program could not be predicted, 4 a problem of this machine.
"""


@dataclass(frozen=True)
class Options:
    """What the user asked for."""

    program: list[str]
    """Its script, or ``-m`` and a module, and its arguments."""
    card: Card
    is_for_all_cards: bool = False
    lists_cards: bool = False
    steps: int | None = DEFAULT_STEPS
    seconds: float = DEFAULT_SECONDS
    output: str | None = None
    force: bool = False
    fit_bytes: int | None = None
    sweeps: list[SweptFlag] = field(default_factory=list)
    assumed: dict[str, float] = field(default_factory=dict)
    calibration: str | None = None
    json: bool = False
    per_node: int | None = None
    """Processes on each machine; None: the program is one process."""
    nodes: int = 1
    ranks: list[int] = field(default_factory=list)
    """Those that are predicted."""
    real_folders: list[str] = field(default_factory=list)
    """What is written there is not held back."""
    notes: list[str] = field(default_factory=list)
    """What the user should know about how the words were understood."""

    @property
    def is_module(self) -> bool:
        """Whether the program is a module."""
        return self.program[0] == "-m"

    @property
    def name(self) -> str:
        """The script or module, as messages name it."""
        return self.program[1] if self.is_module else self.program[0]


def _parser() -> CommandParser:
    parser = CommandParser("gpumemprof estimate", HELP)
    parser.add_argument("--gpu", default=DEFAULT)
    parser.add_argument("--gpus", action="store_true")
    parser.add_argument("--steps", default=str(DEFAULT_STEPS))
    parser.add_argument("--limit", default=str(DEFAULT_SECONDS))
    parser.add_argument("--let-write", action="append", default=[])
    parser.add_argument("--calibration")
    parser.add_argument("-o", "--output")
    parser.add_argument("-f", "--force", action="store_true")
    parser.add_argument("--fit")
    parser.add_argument("--sweep", action="append", default=[])
    parser.add_argument("--assume", action="append", default=[])
    parser.add_argument("--nproc")
    parser.add_argument("--nnodes")
    parser.add_argument("--ranks")
    parser.add_argument("--json", action="store_true")
    # Both take everything that follows: it belongs to the program, whatever it looks like.
    parser.add_argument("-m", dest="module", nargs=argparse.REMAINDER)
    parser.add_argument("program", nargs=argparse.REMAINDER)
    return parser


def parse(words: Sequence[str]) -> Options | None:
    """The options; None if help is wanted.

    Raises:
        UsageError: an option is unknown, or does not go with the others.
    """
    parser = _parser()
    given = parser.parse(words)
    if given.help:
        return None
    if given.gpus:
        return Options([], find_card(DEFAULT), lists_cards=True, json=given.json)
    is_for_all = given.gpu == ALL
    split = split_own_flags(_program(parser, given))
    given.sweep += split.own.get("--sweep", [])
    given.fit = (split.own.get("--fit", []) or [given.fit])[-1]
    options = Options(
        program=split.program,
        card=find_card(DEFAULT if is_for_all else given.gpu),
        is_for_all_cards=is_for_all,
        steps=_steps(parser, given.steps),
        seconds=_seconds(parser, given.limit),
        output=given.output,
        force=given.force,
        fit_bytes=None if given.fit is None else parse_size("--fit", given.fit),
        sweeps=[parse_sweep(text) for text in given.sweep],
        assumed=dict(_assumed(parser, text) for text in given.assume),
        calibration=given.calibration,
        real_folders=[_folder(parser, path) for path in given.let_write],
        json=given.json,
        notes=[
            f"{flag} {' '.join(values)} was taken as a flag of estimate, since {split.program[0]} "
            "has no such flag; write it before the script to be sure"
            for flag, values in split.own.items()
        ],
        **parse_ranks(parser, given),
    )
    _check(parser, options)
    return options


def _program(parser: CommandParser, given: argparse.Namespace) -> list[str]:
    if given.module is not None:
        if not given.module:
            raise parser.mistake("-m needs a value")
        return ["-m", *given.module, *given.program]
    program = list(given.program)
    if program[:1] == ["--"]:
        del program[0]
    if not program:
        raise parser.mistake("estimate needs a script, or -m and a module")
    script = Path(program[0])
    if not program[0] or not script.exists():
        raise parser.mistake(f"{program[0] or 'an empty name'}: no such script")
    if script.is_dir() and not (script / "__main__.py").exists():
        raise parser.mistake(f"{program[0]} is a folder without __main__.py; name a script")
    return program


def _steps(parser: CommandParser, text: str) -> int | None:
    if text == ALL:
        return None
    if not text.isdecimal() or int(text) == 0:
        raise parser.mistake(f"--steps takes a number above 0, or all, not {text!r}")
    return int(text)


def _seconds(parser: CommandParser, text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0
    if not 0 < seconds < float("inf"):
        raise parser.mistake(f"--limit takes a number of seconds above 0, not {text!r}")
    return seconds


def _folder(parser: CommandParser, path: str) -> str:
    if not Path(path).is_dir():
        raise parser.mistake(f"--let-write takes a folder, but {path} is none")
    return os.path.realpath(path)


_ASSUMED = re.compile(r"(?P<file>.+):(?P<line>[1-9][0-9]*)=(?P<value>.+)")


def _assumed(parser: CommandParser, text: str) -> tuple[str, float]:
    match = _ASSUMED.fullmatch(text)
    if match is None:
        raise parser.mistake(f"--assume takes FILE:LINE=VALUE, such as train.py:52=8, not {text!r}")
    truths = {"true": 1.0, "false": 0.0}
    value = match["value"].strip()
    try:
        number = truths[value.lower()] if value.lower() in truths else float(value)
    except ValueError:
        raise parser.mistake(f"--assume takes a number, True or False, not {value!r}") from None
    return f"{match['file']}:{match['line']}", number


# Each answer is that of the rank that needs most.
_COMBINED = (["--gpu all", "--nproc"], ["--sweep", "--nproc"], ["--fit", "--nproc"])


def _check(parser: CommandParser, options: Options) -> None:
    several = [
        name
        for name, is_given in (
            ("--gpu all", options.is_for_all_cards),
            ("--sweep", bool(options.sweeps)),
            ("--fit", options.fit_bytes is not None),
            ("--nproc", options.per_node is not None),
        )
        if is_given
    ]
    if len(several) > 1 and several not in _COMBINED:
        raise parser.mistake(f"{several[0]} and {several[1]} cannot be combined")
    check_launcher(parser, options.program)
    if options.output is None:
        return
    if several and several[0] not in ("--fit", "--nproc"):
        raise parser.mistake(f"{several[0]} makes several predictions; -o keeps one")
    if Path(options.output).is_dir():
        raise parser.mistake(f"{options.output} is a folder; name a file with -o")
    folder = Path(options.output).parent
    if not folder.is_dir():
        raise parser.mistake(f"{folder} is no folder; name another file with -o")
    if not os.access(folder, os.W_OK):
        raise parser.mistake(f"{folder} cannot be written to; name another file with -o")
    for path in output_files(options):
        if os.path.lexists(path) and not options.force:
            raise parser.mistake(f"{path} exists; add -f to replace it, or name another with -o")


def output_files(options: Options) -> list[Path]:
    """What -o writes: a file, or one for each rank."""
    path = Path(options.output or "")
    if options.per_node is None:
        return [path]
    worlds = (World(rank, options.per_node, options.nodes) for rank in options.ranks)
    return [rank_path(path, world) for world in worlds]
