"""``gpumemprof run``: records a program from first line to last, and otherwise leaves it alone.

Python itself runs the program: this process becomes ``python script.py``, with an environment that
makes Python start the recorder first (`processes`). So the program's modules, arguments, streams,
signals, tracebacks and exit code are its own.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from gpumemprof.command_line import CommandParser
from gpumemprof.errors import EnvironmentProblem, Error, UsageError
from gpumemprof.recorder import processes, registry
from gpumemprof.recorder.places import check_folder
from gpumemprof.recorder.run_closing import print_message
from gpumemprof.recorder.run_options import add_options, settings_of
from gpumemprof.recorder.run_settings import Settings, rank_suffix, recorded_command

__all__ = ["main"]

_USAGE_CODE = 2
_ENVIRONMENT_CODE = 4
_HELP = """\
Run a Python program and record every allocation it makes.

Usage: gpumemprof run [OPTIONS] SCRIPT [ARGUMENTS...]
       gpumemprof run [OPTIONS] -m MODULE [ARGUMENTS...]
       gpumemprof run [OPTIONS] -c CODE [ARGUMENTS...]
       torchrun [...] -m gpumemprof run [OPTIONS] SCRIPT [ARGUMENTS...]

Options:
  -o, --output FILE   Write to FILE (default: SCRIPT.PID.gmp; in a distributed
                      run, the host and rank are added to the name)
  -f, --force         Replace FILE if it exists
  --live              Show the program's memory on the terminal while it runs
  --keep SIZE         Use no more of the disk than SIZE (2GiB): FILE becomes a
                      folder, and the middle of a long run is only summarised
  --no-children       Do not record processes that the program starts
  --no-stacks         Do not record where memory was allocated
  --native-stacks     Also record the C++ frames of extension modules, below the
                      Python ones
  --no-labels         Do not record which memory holds parameters,
                      gradients and optimizer state
  --cpu               Record CPU tensors; the default without CUDA
  --leaks             Find the lines whose memory grows from step to step, and
                      what in the program holds it; stored in the recording
  --leaks-signal NAME Print them so far on this signal (default: SIGUSR2, or
                      none)
  --record-arguments  Record the values of the program's arguments,
                      not only their names
  --alert CONDITION   Say when a condition is met, such as "headroom<5%" or
                      "growth>100MiB/min"; may be given several times
  --alert-webhook URL Also send each alert as JSON to this address
  --alert-command CMD Also run this command for each alert
  --metrics ADDRESS   Publish figures for Prometheus at this port (:9464), for
                      this machine alone unless a host is given
  -h, --help          Print this help

Everything after SCRIPT, MODULE or CODE is passed to the program. The exit code
is the program's own.
"""


@dataclass
class _Options:
    script: str
    """Or the module, or the code."""
    how: str
    """``-m``, ``-c``, or nothing for a script, as for Python."""
    arguments: list[str]
    output: str | None
    settings: Settings
    is_live: bool


def _parser() -> CommandParser:
    parser = CommandParser("gpumemprof run", _HELP)
    parser.add_argument("-o", "--output")
    parser.add_argument("-f", "--force", action="store_true")
    parser.add_argument("--live", action="store_true")
    add_options(parser)
    # They take everything that follows: it belongs to the program, whatever it looks like.
    parser.add_argument("-m", dest="module", nargs=argparse.REMAINDER)
    parser.add_argument("-c", dest="code", nargs=argparse.REMAINDER)
    parser.add_argument("program", nargs=argparse.REMAINDER)
    return parser


def _parse(parser: CommandParser, words: Sequence[str]) -> _Options | None:
    """The options; None if help is wanted."""
    given = parser.parse(words)
    if given.help:
        return None
    how, words_of_it = "", []
    for flag, found in (("-m", given.module), ("-c", given.code)):
        if found is not None:
            how, words_of_it = flag, found
    # What follows a -- among its arguments is in `program`, with the -- itself.
    program = [*words_of_it, *given.program]
    if how and not words_of_it:
        raise parser.mistake(f"{how} needs a value")
    if how and f"{how}{program[0]}" in words[: len(words) - len(program) + 1]:
        raise parser.mistake(f"unexpected argument '{how}{program[0]}'")
    if not how and program[:1] == ["--"]:
        del program[0]
        if not program:
            raise parser.mistake("run -- needs a script")
    if not program:
        raise parser.mistake("run needs a script, -m and a module, or -c and code")
    settings = settings_of(parser, given)
    settings.force = given.force
    return _Options(program[0], how, program[1:], given.output, settings, given.live)


def _name(options: _Options) -> str:
    """What recordings are named after, as with GPUMEMPROF=1."""
    if options.how == "-c":
        return "python"
    return options.script if options.how else Path(options.script).stem


def _set_paths(options: _Options, pid: int) -> None:
    suffix = rank_suffix()
    settings = options.settings
    if options.output is not None:
        path = Path(options.output)
        base = path.with_name(path.stem)
        settings.output = str(path.with_name(f"{path.stem}{suffix}{path.suffix}"))
    else:
        base = Path(_name(options))
        settings.output = f"{base}{suffix}.{pid}.gmp"
    settings.children_base = str(Path.cwd() / base)
    settings.is_output_given = options.output is not None


def _check(options: _Options) -> str | None:
    """What is wrong with the options, if anything is."""
    if not options.how and options.script == "-":
        return "run cannot record a program that Python reads from its input; pass it with -c"
    if not options.how and not Path(options.script).exists():
        return f"{options.script}: no such script"
    path = options.settings.output
    if Path(path).is_dir() and options.settings.keep is None:
        return f"{path} is a folder; name a file with -o"
    if os.path.lexists(path) and not options.settings.force:
        return f"{path} exists; add -f to replace it, or name another with -o"
    if sys.flags.ignore_environment or sys.flags.no_site:
        return "run cannot record a Python that was started with -I, -E or -S"
    return None


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


def _publish(address: tuple[str, int], is_quiet: bool) -> None:
    """Start the process that publishes this one's figures."""
    from gpumemprof.integrations.monitoring import exporter

    try:
        where = exporter.start(*address, os.getpid())
    except Error as error:
        print_message(str(error))
        os._exit(_ENVIRONMENT_CODE)
    if not is_quiet:
        print_message(f"metrics at {where}")


def _become(options: _Options) -> NoReturn:
    processes.leave()
    settings = options.settings
    if settings.metrics is not None:
        _publish(settings.metrics, settings.quiet)
    if settings.children or settings.private() != "{}":
        # Without it, children are recorded all the same, but not named.
        with contextlib.suppress(OSError):
            settings.registry = registry.make(settings.private(), is_inherited=True)
    environment = dict(os.environ)
    environment.pop("GPUMEMPROF", None)  # The program is not to be recorded twice.
    settings.add_to(environment, os.getpid())
    # A script whose name begins with a dash is still a script.
    script = f"./{options.script}" if options.script.startswith("-") else options.script
    how = [options.how, options.script] if options.how else [script]
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):  # It may be closed.
            stream.flush()
    words = [sys.executable, *_interpreter_flags(), *how, *options.arguments]
    os.execve(sys.executable, words, environment)


def main(
    arguments: Sequence[str],
    is_quiet: bool = False,
    applied: str | None = None,
    estimate: str | None = None,
) -> int:
    """Become the program, recorded; returns only if that fails.

    Args:
        arguments: the words after the verb.
        is_quiet: print nothing about the recording at the end, and record no other process.
        applied: a request to change the program; see `gpumemprof.verify.apply`.
        estimate: a request to predict it; see `gpumemprof.estimate.process.request`.
    """
    parser = _parser()
    try:
        options = _parse(parser, arguments)
        if options is None:
            print(_HELP, end="")
            return 0
        check_folder()
        _set_paths(options, os.getpid())
        if (mistake_found := _check(options)) is not None:
            raise parser.mistake(mistake_found)
    except UsageError as mistake:
        print_message(str(mistake))
        return _USAGE_CODE
    except EnvironmentProblem as problem:
        print_message(str(problem))
        return _ENVIRONMENT_CODE
    settings = options.settings
    settings.quiet, settings.applied, settings.estimate = is_quiet, applied, estimate
    settings.children &= not is_quiet
    program = options.script
    if options.how == "-c":  # Code holds values too, which may be secret.
        program = f"python -c {options.script}" if settings.arguments else "python -c"
    settings.command = recorded_command([program, *options.arguments], settings.arguments)
    if options.is_live:
        return _watch(options)
    _become(options)


def _watch(options: _Options) -> int:
    """Run the program in a child process, and show its memory meanwhile."""
    from gpumemprof.live import program

    def become() -> NoReturn:
        _set_paths(options, os.getpid())
        _become(options)

    def output_of(pid: int) -> str:
        _set_paths(options, pid)
        return options.settings.output

    return program.run(become, output_of)
