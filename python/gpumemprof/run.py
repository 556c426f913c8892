"""``gpumemprof run``: a program, recorded from first line to last, otherwise as it would be.

The program runs in this process, as ``python script.py`` would run it: its arguments, standard
streams, signals and exit code are its own.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import runpy
import socket
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gpumemprof import _torch
from gpumemprof.errors import CutFileWarning, Error, RecordingWarning
from gpumemprof.printable import printable
from gpumemprof.recorder import ActiveRecording
from gpumemprof.recording import load

__all__ = ["main"]

_USAGE_CODE = 2
_HELP = """\
Run a program and record every byte of GPU memory it uses.

Usage: gpumemprof run [OPTIONS] SCRIPT [ARGUMENTS...]
       gpumemprof run [OPTIONS] -m MODULE [ARGUMENTS...]
       torchrun [...] -m gpumemprof run [OPTIONS] SCRIPT [ARGUMENTS...]

Options:
  -o, --output FILE  Write here (default: SCRIPT.PID.gmp; with several ranks also host and rank)
  -f, --force        Replace FILE if it is there
  --no-stacks        Do not record where memory was allocated
  --no-labels        Do not record which memory holds parameters, gradients, …
  --cpu              Record CPU tensors; done by itself where there is no CUDA
  -h, --help         Print this help

Everything after SCRIPT or MODULE belongs to the program. Its exit code is passed through.
"""
# Above this the report is left to the next command: the program's end should not wait for it.
_QUICK_BYTES = 8 << 20


class _UsageError(Exception):
    pass


@dataclass
class _Options:
    script: str = ""
    is_module: bool = False
    arguments: list[str] = field(default_factory=list)
    output: str | None = None
    force: bool = False
    stacks: bool = True
    labels: bool = True
    cpu: bool | None = None
    help: bool = False


def _take_value(words: list[str], name: str) -> str:
    if not words:
        raise _UsageError(f"{name} needs a value")
    return words.pop(0)


def _parse(arguments: Sequence[str]) -> _Options:
    options = _Options()
    words = list(arguments)
    while words:
        word = words.pop(0)
        if word in ("-h", "--help"):
            options.help = True
            return options
        if word in ("-o", "--output"):
            options.output = _take_value(words, word)
        elif word.startswith("--output="):
            options.output = word.partition("=")[2]
        elif word in ("-f", "--force"):
            options.force = True
        elif word == "--no-stacks":
            options.stacks = False
        elif word == "--no-labels":
            options.labels = False
        elif word == "--cpu":
            options.cpu = True
        elif word == "-m":
            options.is_module = True
            options.script = _take_value(words, word)
            options.arguments = words
            return options
        elif word == "--":
            options.script = _take_value(words, "run --")
            options.arguments = words
            return options
        elif word.startswith("-"):
            raise _UsageError(f"run does not know {word}")
        else:
            options.script = word
            options.arguments = words
            return options
    raise _UsageError("run needs a script, or -m and a module")


def _say(sentence: str) -> None:
    # Standard error may be closed or full; the program does not end for that.
    with contextlib.suppress(OSError, ValueError, AttributeError):
        print(f"gpumemprof: {printable(sentence)}", file=sys.stderr, flush=True)


def _rank_suffix() -> str:
    """The host and rank where there are several processes, else nothing."""
    for size, rank in (
        ("WORLD_SIZE", "RANK"),
        ("SLURM_NTASKS", "SLURM_PROCID"),
        ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"),
    ):
        if os.environ.get(size, "1") != "1" and os.environ.get(rank, "").isdecimal():
            return f".{socket.gethostname()}.rank{os.environ[rank]}"
    return ""


def _output_path(options: _Options) -> str:
    suffix = _rank_suffix()
    if options.output is not None:
        path = Path(options.output)
        return str(path.with_name(f"{path.stem}{suffix}{path.suffix}")) if suffix else str(path)
    name = options.script if options.is_module else Path(options.script).stem
    return f"{name}{suffix}.{os.getpid()}.gmp"


def _size(size_bytes: int) -> str:
    value = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.2f} {unit}"
        value /= 1024
    return ""


def _peaks(recording: ActiveRecording) -> str:
    """The exact peaks where reading them back is quick, else what was requested."""
    if recording.summary["size_bytes"] <= _QUICK_BYTES:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", CutFileWarning)
                devices = load(recording.path).devices
            told = [
                f"peak {_size(d.peak.allocated_bytes)} on {d.device}"
                for d in devices
                if d.peak.allocated_bytes is not None
            ]
            return ", ".join(told)
        except Error:
            pass
    return ", ".join(
        f"peak {_size(d['peak_requested_bytes'])} requested on {recording.memory}:{d['device']}"
        for d in recording.summary["devices"]
    )


def _finish(recording: ActiveRecording, process: int, is_quiet: bool) -> None:
    """At the very end: where it went, the peak, the next command."""
    if os.getpid() != process:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RecordingWarning)
        recording.stop("exit")
    if is_quiet:
        return
    for note in recording.notes:
        _say(note)
    if not recording.summary:
        return
    if not _torch.is_imported():
        _say("the program never imported torch, so there is nothing to report")
        Path(recording.path).unlink(missing_ok=True)
        return
    if recording.capture == "counters":
        _say(f"events could not be recorded; torch's own counters are in {recording.path}")
        _say_next(recording)
        return
    if recording.summary["events"] == 0 and recording.capture != "recorder":
        hint = (
            "; record CPU tensors with: gpumemprof run --cpu" if recording.memory == "cuda" else ""
        )
        _say(f"no {recording.memory} memory was allocated{hint}")
        return
    count = recording.summary["events"]
    _say(
        f"{count:,} events in {recording.path} ({_size(recording.summary['size_bytes'])}, "
        f"capture: {recording.capture}); {_peaks(recording)}"
    )
    _say_next(recording)


def _say_next(recording: ActiveRecording) -> None:
    with contextlib.suppress(OSError, ValueError, AttributeError):
        print(f"Next: gpumemprof report {printable(recording.path)}", file=sys.stderr, flush=True)


def _start(options: _Options) -> ActiveRecording | None:
    """Start recording; where that fails the program runs without."""
    path = _output_path(options)
    if Path(path).exists() and not options.force:
        raise _UsageError(f"{path} exists; add -f to replace it, or name another with -o")
    try:
        return ActiveRecording(path, options.stacks, options.cpu, options.force, options.labels)
    except Error as error:
        _say(f"{error}; the program runs without being recorded")
        return None


def _run_program(options: _Options) -> None:
    sys.argv = [options.script, *options.arguments]
    # As Python itself does it, with -P (3.11) not at all.
    if not getattr(sys.flags, "safe_path", False):
        folder = Path.cwd() if options.is_module else Path(options.script).resolve().parent
        sys.path[0] = str(folder)
    if options.is_module:
        runpy.run_module(options.script, run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(options.script, run_name="__main__")


def main(arguments: Sequence[str], is_quiet: bool = False) -> int:
    """Run the verb; what the program raises, SystemExit too, passes through.

    Args:
        arguments: what follows the verb.
        is_quiet: say nothing of the recording at the end.
    """
    try:
        options = _parse(arguments)
        if options.help:
            print(_HELP, end="")
            return 0
        if not options.is_module and not Path(options.script).exists():
            raise _UsageError(f"{options.script}: no such script")
        recording = _start(options)
    except _UsageError as mistake:
        _say(f"{mistake}; see gpumemprof run --help")
        return _USAGE_CODE
    if recording is not None:
        # Registered before anything of the program's, so it runs after all of it.
        atexit.register(_finish, recording, os.getpid(), is_quiet)
    try:
        _run_program(options)
    except (SystemExit, KeyboardInterrupt):
        raise
    except BaseException as error:
        # As Python would print it, starting with the program's own first frame.
        frame = error.__traceback__
        ours = (__file__, runpy.__file__, "<frozen runpy>")
        while frame is not None and frame.tb_frame.f_code.co_filename in ours:
            frame = frame.tb_next
        sys.excepthook(type(error), error.with_traceback(frame), frame)
        return 1
    return 0
