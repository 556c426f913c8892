"""``gpumemprof run``: records a program from first line to last, and otherwise leaves it alone.

Python itself runs the program: this process becomes ``python script.py``, with an environment that
makes Python start the recorder first (`processes`). So the program's modules, arguments, streams,
signals, tracebacks and exit code are its own.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from gpumemprof.recorder import processes
from gpumemprof.recorder.run_closing import say
from gpumemprof.recorder.run_settings import Settings, rank_suffix, recorded_command

__all__ = ["main"]

_USAGE_CODE = 2
_HELP = """\
Run a program and record every byte of GPU memory it uses.

Usage: gpumemprof run [OPTIONS] SCRIPT [ARGUMENTS...]
       gpumemprof run [OPTIONS] -m MODULE [ARGUMENTS...]
       torchrun [...] -m gpumemprof run [OPTIONS] SCRIPT [ARGUMENTS...]

Options:
  -o, --output FILE   Write here (default: SCRIPT.PID.gmp; with several ranks also host and rank)
  -f, --force         Replace FILE if it is there
  --no-children       Do not record the processes that the program starts
  --no-stacks         Do not record where memory was allocated
  --no-labels         Do not record which memory holds parameters, gradients, …
  --cpu               Record CPU tensors; done by itself where there is no CUDA
  --record-arguments  Keep the values of the program's arguments too, not only their names
  -h, --help          Print this help

Everything after SCRIPT or MODULE belongs to the program. Its exit code is passed through.
"""


class _UsageError(Exception):
    pass


@dataclass
class _Options:
    script: str = ""
    is_module: bool = False
    arguments: list[str] = field(default_factory=list)
    output: str | None = None
    settings: Settings = field(default_factory=Settings)
    help: bool = False


def _take_value(words: list[str], name: str) -> str:
    if not words:
        raise _UsageError(f"{name} needs a value")
    return words.pop(0)


def _take_flag(settings: Settings, word: str) -> bool:
    """Whether it is one of the flags without a value."""
    if word in ("-f", "--force"):
        settings.force = True
    elif word == "--no-children":
        settings.children = False
    elif word == "--no-stacks":
        settings.stacks = False
    elif word == "--no-labels":
        settings.labels = False
    elif word == "--cpu":
        settings.cpu = True
    elif word == "--record-arguments":
        settings.arguments = True
    else:
        return False
    return True


def _parse(arguments: Sequence[str]) -> _Options:
    options = _Options()
    words = list(arguments)
    while words:
        word = words.pop(0)
        if word in ("-h", "--help"):
            options.help = True
            return options
        if _take_flag(options.settings, word):
            continue
        if word in ("-o", "--output"):
            options.output = _take_value(words, word)
            continue
        if word.startswith("--output="):
            options.output = word.partition("=")[2]
            continue
        if word == "-m":
            options.is_module = True
            word = _take_value(words, word)
        elif word == "--":
            word = _take_value(words, "run --")
        elif word.startswith("-"):
            raise _UsageError(f"run does not know {word}")
        options.script = word
        options.arguments = words
        return options
    raise _UsageError("run needs a script, or -m and a module")


def _set_paths(options: _Options) -> None:
    suffix = rank_suffix()
    settings = options.settings
    if options.output is not None:
        path = Path(options.output)
        base = path.with_name(path.stem)
        settings.output = str(path.with_name(f"{path.stem}{suffix}{path.suffix}"))
    else:
        base = Path(options.script if options.is_module else Path(options.script).stem)
        settings.output = f"{base}{suffix}.{os.getpid()}.gmp"
    settings.children_base = str(Path.cwd() / base)


def _check(options: _Options) -> None:
    if not options.is_module and not Path(options.script).exists():
        raise _UsageError(f"{options.script}: no such script")
    path = options.settings.output
    if Path(path).is_dir():
        raise _UsageError(f"{path} is a folder; name a file with -o")
    if os.path.lexists(path) and not options.settings.force:
        raise _UsageError(f"{path} exists; add -f to replace it, or name another with -o")
    if sys.flags.ignore_environment or sys.flags.no_site:
        raise _UsageError("run cannot record a Python that was started with -I, -E or -S")


def _interpreter_flags() -> list[str]:
    """The flags that Python was given for ``-m gpumemprof``: they were meant for the program."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    if spec is None or spec.name != "gpumemprof.__main__":
        return []
    given: list[str] = getattr(sys, "orig_argv", [])
    for place in range(1, len(given)):
        if given[place : place + 2] == ["-m", "gpumemprof"]:
            return given[1:place]
    # Python 3.9, or given in another form: their effect is known all the same.
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    return flags


def _become(options: _Options) -> NoReturn:
    processes.leave()
    environment = dict(os.environ)
    options.settings.add_to(environment, os.getpid())
    # A script whose name begins with a dash is still a script.
    script = f"./{options.script}" if options.script.startswith("-") else options.script
    how = ["-m", options.script] if options.is_module else [script]
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):  # It may be closed.
            stream.flush()
    words = [sys.executable, *_interpreter_flags(), *how, *options.arguments]
    os.execve(sys.executable, words, environment)


def main(arguments: Sequence[str], is_quiet: bool = False, applied: str | None = None) -> int:
    """Become the program, recorded; returns only if that fails.

    Args:
        arguments: the words after the verb.
        is_quiet: print nothing about the recording at the end, and record no other process.
        applied: a request to change the program; see `gpumemprof.verify.apply`.
    """
    try:
        options = _parse(arguments)
        if options.help:
            print(_HELP, end="")
            return 0
        _set_paths(options)
        _check(options)
    except _UsageError as mistake:
        say(f"{mistake}; see gpumemprof run --help")
        return _USAGE_CODE
    settings = options.settings
    settings.quiet, settings.applied = is_quiet, applied
    settings.children &= not is_quiet
    words = [options.script, *options.arguments]
    settings.command = recorded_command(words, settings.arguments)
    _become(options)
