"""What recordings are called, and whether they can be written there."""

from __future__ import annotations

import os
import socket
import sys
import tempfile
from pathlib import Path

from gpumemprof.errors import EnvironmentProblem, UsageError
from gpumemprof.recorder.run_settings import Settings, rank_suffix

__all__ = ["check", "check_folder", "name_after_script", "set_names"]

_VARIABLE = "GPUMEMPROF_OUTPUT"
_HINT = f"name another file with {_VARIABLE}"
_NO_SCRIPT = ("", "-c", "-m", "-")
_WITH_VALUE = ("-W", "-X", "--check-hash-based-pycs")


def set_names(settings: Settings, first_process: int) -> None:
    """What the recordings of this process, and of those it forks, are called.

    Raises:
        UsageError: the name is no file's.
        EnvironmentProblem: the current folder was deleted.
    """
    output = os.environ.get(_VARIABLE, "")
    if "://" in output:
        raise UsageError(
            "recordings are written to files of this machine, so nothing is recorded",
            "usage",
            output,
            f"name one with {_VARIABLE}, and copy it when the program has ended",
        )
    path = Path(output or _program_name(first_process))
    if not path.is_absolute():
        path = _current_folder() / path
    suffix = rank_suffix()
    if output:
        base = path.with_name(path.stem)
        settings.output = f"{base}{suffix}{path.suffix or '.gmp'}"
        path = base
    # Several machines, and containers whose numbers of processes repeat, may share a folder.
    settings.children_base = str(path) if suffix else f"{path}.{socket.gethostname()}"


def check_folder() -> None:
    """Raises an EnvironmentProblem where the current folder was deleted."""
    try:
        Path.cwd()
    except FileNotFoundError:
        raise EnvironmentProblem(
            "the current folder was deleted", "environment", "", "change to another one"
        ) from None


def _current_folder() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise EnvironmentProblem(
            "the current folder was deleted, so nothing is recorded", "environment", "", _HINT
        ) from None


def _program_name(first_process: int) -> str:
    """What the recording is named after."""
    script = sys.argv[0] if sys.argv else ""
    if "ipykernel" in script:
        return "notebook"
    if script in _NO_SCRIPT:
        # Such as a worker of pytest, which runs what it reads.
        script = _script_of(first_process)
    return _stem(script) or "python"


def _stem(script: str) -> str:
    path = Path(script)
    return path.parent.name if path.stem == "__main__" else path.stem


def name_after_script(settings: Settings) -> None:
    """Call in a process that `gpumemprof run` did not start itself, such as a rank of torchrun.

    Its recording is named after the script that it runs. A worker that runs no script of its own
    keeps the name that its parent's have.
    """
    name = "" if settings.is_output_given else _stem(_script_of(os.getpid()))
    if name:
        settings.children_base = str(Path(settings.children_base).parent / name)


def _script_of(process: int) -> str:
    """The script or module of another process; empty if it is not known, or has none."""
    try:
        words = os.fsdecode(Path(f"/proc/{process}/cmdline").read_bytes()).split("\0")[1:]
    except OSError:
        return ""
    is_value = False
    for word, next_word in zip(words, [*words[1:], ""]):
        if word == "-m":
            return next_word.rpartition(".")[2]
        if not is_value and word in _NO_SCRIPT:
            return ""
        if not is_value and not word.startswith("-"):
            return word
        is_value = word in _WITH_VALUE
    return ""


def check(path: str) -> None:
    """Make the folder if it is not there.

    Raises:
        EnvironmentProblem: no file can be made there.
    """
    folder = Path(path).parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as problem:
        raise EnvironmentProblem(
            f"no recording can be written there ({problem.strerror}), so nothing is recorded",
            "environment",
            str(folder),
            _HINT,
        ) from None
