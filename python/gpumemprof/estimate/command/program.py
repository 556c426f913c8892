"""Runs the program that is predicted, each time in a new process, and reads its recording."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from gpumemprof.errors import Error, InputError
from gpumemprof.estimate import process
from gpumemprof.estimate.cards import Card
from gpumemprof.estimate.command.options import Options
from gpumemprof.estimate.command.prediction import Prediction
from gpumemprof.estimate.process.crashes import STUCK_SIGNAL, take_crash_line
from gpumemprof.estimate.process.facts import LIMIT_REACHED, OUT_OF_MEMORY
from gpumemprof.estimate.process.notes import Notes
from gpumemprof.estimate.process.request import Request
from gpumemprof.estimate.ranks.world import World, rank_path
from gpumemprof.estimate.shelter.changes import Changes
from gpumemprof.estimate.shelter.shelter import (
    LANDLOCK,
    LAYERS_VARIABLE,
    OVERLAY,
    REDIRECT,
    Shelter,
    open_shelter,
)
from gpumemprof.read.recording import Recording
from gpumemprof.verify import apply
from gpumemprof.verify.program import RunNotes, add_remedies, open_quietly

__all__ = ["AT_ONCE", "Blocks", "Run", "Trial", "UnpredictedError", "predict"]

_LAUNCHER = Path(process.__file__).resolve().parent / "launcher" / "start.py"
# A process that does not end itself at its limit is killed so much later.
_GRACE_SECONDS = 60
_SECONDS_TO_SAY_WHERE = 2
_SHOWN_LINES = 20

AT_ONCE = 2
"""How many programs run at the same time, each with its own memory for modules and data."""


_READS_DATA = (
    "compiled code that it calls may read the data of tensors, which an estimate does not have: "
    "leave it out, or make it an operation with torch.library.custom_op and register_fake"
)
_CRASH_HINTS: dict[int, str] = {
    signal.SIGSEGV: _READS_DATA,
    signal.SIGBUS: _READS_DATA,
    signal.SIGKILL: "this machine may have run out of memory, or someone ended it",
}


class UnpredictedError(InputError):
    """The program could not be predicted; `output` has the end of its output if that was kept."""

    output = ""

    def show_output(self) -> None:
        """Print it: the message refers to it."""
        if self.output:
            print(self.output, file=sys.stderr)


@dataclass(frozen=True)
class Run:
    """One predicted run: its recording and what it says."""

    path: Path
    recording: Recording
    prediction: Prediction
    notes: Notes
    effects: list[apply.Effect]
    """What the remedies changed that were applied to it."""
    changes: Changes | None
    """What it would have written and removed; None if that is unknown."""
    shelter: str = OVERLAY
    """What kept its writes from the user's files."""


@dataclass(frozen=True)
class Blocks:
    """Some of a model's blocks, by their order, of so many."""

    which: tuple[int, ...]
    of: int


@dataclass(frozen=True)
class Trial:
    """How the program is run this time."""

    card: Card
    limit_bytes: int
    path: Path
    program: list[str]
    remedies: Sequence[str] = ()
    blocks: Blocks | None = None
    """Those that checkpointing is applied to; None: all."""
    is_captured: bool = False
    """Keep its output, and show it only if it fails."""
    limits: Sequence[int] = ()
    """To be simulated with the prediction."""
    world: World | None = None
    """Which rank it is; None: the program is one process."""
    shelter: Shelter | None = None
    """One that it shares with others; None: it gets its own."""

    @property
    def recording_path(self) -> Path:
        """Where it is recorded: `run` adds the rank to the name."""
        return self.path if self.world is None else rank_path(self.path, self.world)

    def environment(self) -> dict[str, str]:
        """Ours, with what the remedies need and what torchrun would set."""
        found = add_remedies(self.remedies)
        if self.world is not None:
            found = {"OMP_NUM_THREADS": "1", **found, **self.world.environment()}
        return found


def predict(options: Options, trial: Trial) -> Run:
    """Run the program once.

    Raises:
        UnpredictedError: it failed, used no GPU memory, or cannot be predicted.
    """
    if trial.shelter is None:
        with closing(open_shelter(options.real_folders)) as own:
            return predict(options, replace(trial, shelter=own))
    shelter = trial.shelter
    folder = trial.path.parent
    notes_path = folder / f"{trial.path.stem}.notes"
    effects_path = folder / f"{trial.path.stem}.effects"
    request = Request(
        notes_path=str(notes_path),
        card=trial.card.id,
        limit_bytes=trial.limit_bytes,
        steps=options.steps,
        seconds=options.seconds,
        assumed=options.assumed,
        shows_progress=not trial.is_captured and sys.stderr.isatty(),
        has_scratch=shelter.has_scratch,
        world=None if trial.world is None else vars(trial.world),
    )
    applied = _applied(trial, effects_path)
    order = {
        "estimate": request.text(),
        "applied": None if applied is None else json.dumps(vars(applied)),
        "shelter": shelter.order(),
    }
    words = [str(_LAUNCHER), json.dumps(order), "-o", str(trial.path), "-f", *trial.program]
    code, output = _run(words, trial, options.seconds, notes_path)
    notes = Notes.take(notes_path)
    crash_line = take_crash_line(notes_path)
    effects = RunNotes.take(effects_path).effects if applied is not None else []
    if code < 0 and not notes.ended:
        notes = replace(notes, line=crash_line)
    return _read(options, trial, code, output, notes, effects, shelter)


def _applied(trial: Trial, effects_path: Path) -> apply.Request | None:
    if not trial.remedies:
        return None
    request = apply.Request(str(effects_path), list(trial.remedies))
    if trial.blocks is not None:
        request.checkpoint_blocks, request.checkpoint_of = list(trial.blocks.which), trial.blocks.of
    return request


def _run(words: list[str], trial: Trial, seconds: float, notes_path: Path) -> tuple[int, bytes]:
    """Its exit code, and its output if that was kept."""
    # Our output must not end up between the program's lines.
    sys.stdout.flush()
    process = subprocess.Popen(
        [sys.executable, *words],
        env=trial.environment(),
        # Standard output is for the answer alone.
        stdout=subprocess.PIPE if trial.is_captured else sys.stderr,
        stderr=subprocess.STDOUT if trial.is_captured else None,
    )
    try:
        output, _ = process.communicate(timeout=seconds + _GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        process.send_signal(STUCK_SIGNAL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=_SECONDS_TO_SAY_WHERE)
        process.kill()
        process.communicate()
        at = f"{line}: " if (line := take_crash_line(notes_path)) else ""
        raise UnpredictedError(
            f"{at}the program was still running after {seconds:.0f} s, and could not be ended",
            "bad_input",
            "",
            "raise the limit with --limit SECONDS, or predict fewer steps with --steps",
        ) from None
    except BaseException as error:
        if not isinstance(error, KeyboardInterrupt):  # Ctrl-C reaches the program too.
            process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
            process.wait(timeout=5)
        process.kill()
        raise
    return process.returncode, output or b""


def _read(
    options: Options,
    trial: Trial,
    code: int,
    output: bytes,
    notes: Notes,
    effects: list[apply.Effect],
    shelter: Shelter,
) -> Run:
    def unpredicted(message: str, hint: str) -> UnpredictedError:
        error = UnpredictedError(message, "bad_input", "", hint)
        lines = output.decode(errors="replace").splitlines()
        error.output = "\n".join(lines[-_SHOWN_LINES:])
        return error

    if notes.is_prediction_refused:
        raise unpredicted(notes.problem, "")
    has_run_out = notes.ended == OUT_OF_MEMORY
    if code not in (0, None) and not has_run_out and not _ran_out(trial):
        how = f"ended with {_ending(code)}"
        hint = _hint(options, code, notes.problem, shelter)
        at = f"{notes.line}: " if notes.line else ""
        if code < 0 and not notes.ended:
            raise unpredicted(f"{at}the program {how}", _CRASH_HINTS.get(-code, hint))
        problem = notes.problem.rstrip(".: ")
        what = f"{problem}: the program {how}" if problem else f"{at}the program {how}"
        raise unpredicted(what, hint)
    recording = _open(trial.recording_path)
    prediction = None
    if recording is not None:
        prediction = Prediction.read(recording, trial.limit_bytes, trial.limits)
    if recording is None or prediction is None:
        if notes.ended == LIMIT_REACHED:
            at = f" at {notes.line}" if notes.line else ""
            raise unpredicted(
                f"{options.name} had used no GPU memory when it was stopped{at}, after "
                f"{options.seconds:.0f} s",
                "raise the limit with --limit SECONDS",
            )
        raise unpredicted(
            f"{options.name} used no GPU memory",
            'it is predicted as on a machine with a GPU; does it call .to("cuda")? Processes '
            "that it starts are not predicted",
        )
    if code != 0 and prediction.out_of_memory is not None:
        prediction = prediction.failed()
    changes = shelter.changes()
    return Run(trial.recording_path, recording, prediction, notes, effects, changes, shelter.kind)


def _open(path: Path) -> Recording | None:
    return open_quietly(path) if path.exists() else None


def _ran_out(trial: Trial) -> bool:
    """Whether memory ran out in a program that reported it in its own way."""
    try:
        recording = _open(trial.recording_path)
        prediction = None if recording is None else Prediction.read(recording, trial.limit_bytes)
    except Error:
        return False
    return prediction is not None and prediction.out_of_memory is not None


def _ending(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    with contextlib.suppress(ValueError):
        return f"signal {signal.Signals(-code).name}"
    return f"signal {-code}"


_USAGE_CODE = 2
_OWN_FLAGS = ("--gpu", "--steps", "--nproc", "--nnodes", "--ranks", "--json", "--assume", "--limit")


# In the first line of errors about files that could not be downloaded.
_NOT_THERE = (
    "huggingface.co",
    "not a valid model identifier",
    "not a local folder",
    "URLError",
    "urlopen error",
    "HTTPError",
    "ConnectionError",
    "ConnectError",
    "Max retries exceeded",
)


def _hint(options: Options, code: int, problem: str, shelter: Shelter) -> str:
    own = [word for word in options.program[1:] if word.partition("=")[0] in _OWN_FLAGS]
    if code == _USAGE_CODE and own:
        return f"write {own[0]} before {options.name} if it is meant for estimate"
    if any(each in problem for each in _NOT_THERE):
        return (
            "download what it needs first; a model can also be made without its weights, as by "
            "from_config() or weights=None, and takes the same memory"
        )
    if shelter.kind == LANDLOCK:
        return (
            "see its messages above; this machine lets it only read, since it has neither overlays "
            "for users nor gpumemprof's library: --let-write FOLDER lets it write there for real"
        )
    if os.strerror(errno.EOVERFLOW) in problem:
        return (
            "this may be a file of another owner or group, of which an overlay makes no copy; "
            f"set {LAYERS_VARIABLE}={REDIRECT} to redirect its calls instead"
        )
    return f"see its messages above, or try it without estimate: {_plain(options)}"


def _plain(options: Options) -> str:
    return " ".join(["python", *options.program])
