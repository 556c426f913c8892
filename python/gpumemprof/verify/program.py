"""Runs the program that is verified, each time in a process of its own, and reads its recording."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from gpumemprof.errors import CutFileWarning, EnvironmentProblem
from gpumemprof.read.recording import Recording, load
from gpumemprof.verify import apply
from gpumemprof.verify.apply import Effect
from gpumemprof.verify.options import Options

__all__ = ["ProgramFailedError", "RunNotes", "add_remedies", "open_quietly", "run_program"]


@dataclass(frozen=True)
class RunNotes:
    """What the program's process wrote down at its end."""

    effects: list[Effect] = field(default_factory=list)
    step_ends: list[float] = field(default_factory=list)
    """In seconds, of an arbitrary clock."""

    @classmethod
    def take(cls, path: Path) -> RunNotes:
        """Read and delete the file; a program that was killed leaves none."""
        if not path.exists():
            return cls()
        notes = json.loads(path.read_text())
        path.unlink()
        return cls([Effect(**effect) for effect in notes["effects"]], notes["step_ends"])


class ProgramFailedError(Exception):
    """The program ended with an exit code other than 0."""

    def __init__(self, code: int, how: str) -> None:
        # For a signal, the code a shell would report.
        self.code = code if code >= 0 else 128 - code
        ending = f"exit code {code}" if code >= 0 else f"signal {_signal_name(-code)}"
        super().__init__(f"the program {how} ended with {ending}; there is nothing to compare")


def _signal_name(number: int) -> str:
    with contextlib.suppress(ValueError):
        return signal.Signals(number).name
    return str(number)


# Not -m: that would run files in the current folder that are named like standard modules.
_LAUNCHER = Path(apply.__file__).resolve().parent / "launcher" / "start.py"


def run_program(
    options: Options, folder: Path, name: str, memory: str, remedies: list[str]
) -> tuple[Path, RunNotes]:
    """Run the program once; returns its recording and the notes left with it."""
    path = folder / f"{name}.gmp"
    notes_path = folder / f"{name}.json"
    request = apply.Request(str(notes_path), remedies, options.checkpoint_class, memory)
    cpu = ["--cpu"] if memory == "cpu" else []
    words = [str(_LAUNCHER), json.dumps(asdict(request)), "-o", str(path), "-f", *cpu]
    # Our output must not end up between the program's lines.
    sys.stdout.flush()
    process = subprocess.Popen(
        [sys.executable, *words, *options.program],
        env=add_remedies(remedies),
        stdout=sys.stderr if options.json else None,
    )
    code = _wait(process)
    if code != 0:
        how = f"with {' + '.join(remedies)}" if remedies else "as it is"
        raise ProgramFailedError(code, how)
    # For one rank of several, the file name also contains the rank.
    found = sorted(folder.glob(f"{name}*.gmp"))
    if not found:
        raise EnvironmentProblem("the program was not recorded", "environment", str(path))
    return found[0], RunNotes.take(notes_path)


def _wait(process: subprocess.Popen[bytes]) -> int:
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:  # noqa: PERF203 - the program got it too, and ends as it likes
            continue


_CONF_NAMES = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")


def add_remedies(remedies: Sequence[str]) -> dict[str, str]:
    """Our environment, with expandable segments added to the allocator settings if requested."""
    environment = dict(os.environ)
    if "expandable_segments" not in remedies:
        return environment
    names = [name for name in _CONF_NAMES if name in environment] or [_CONF_NAMES[0]]
    for name in names:
        others = [
            setting
            for setting in environment.get(name, "").split(",")
            if setting.strip() and setting.partition(":")[0].strip() != "expandable_segments"
        ]
        environment[name] = ",".join([*others, "expandable_segments:True"])
    return environment


def open_quietly(path: str | Path) -> Recording:
    """Open a recording; what is missing in it is reported elsewhere."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CutFileWarning)
        return load(path)
