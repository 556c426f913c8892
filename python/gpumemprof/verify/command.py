"""``gpumemprof advise --verify``: runs a program with remedies to check the predictions.

Every run is a separate process, recorded as ``gpumemprof run`` does. Only the remedy changes the
program; see `gpumemprof.verify.apply`.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from gpumemprof import _core
from gpumemprof.errors import CutFileWarning, EnvironmentProblem, Error, InputError, UsageError
from gpumemprof.read.recording import Recording, load
from gpumemprof.torch_calls import readiness
from gpumemprof.verify import apply
from gpumemprof.verify.result import Baseline, Measured, StepTime, Verdict, as_json, as_text

__all__ = ["is_wanted", "main"]

_HELP = f"""\
Run a program with a remedy applied from outside, and set the prediction beside what is measured.

Usage: gpumemprof advise [FILE] --verify REMEDY[,REMEDY...] [OPTIONS] -- SCRIPT [ARGUMENTS...]
       gpumemprof advise [FILE] --verify REMEDY[,REMEDY...] [OPTIONS] -- -m MODULE [ARGUMENTS...]

FILE is a recording of the program as it is; without it, the program first runs unchanged.
Each REMEDY gets a run of its own; A+B applies both in one run. Remedies that can be applied:
{", ".join(apply.NAMES)}

Options:
  --checkpoint-class NAME  Checkpoint modules of this class (default: the most repeated one)
  --keep FOLDER            Keep the recordings here
  --with FILE              A recording of the program with another batch, as for advise
  --batch SAMPLES          How many samples a recorded batch has
  --device DEVICE          Compare this device
  --cpu                    Record CPU tensors; done by itself where there is no CUDA
  --json                   Print the comparison as JSON; the program's output goes to stderr
  -h, --help               Print this help

A program that fails ends the command with its exit code.
"""
_CODES = {"usage": 2, "bad_input": 3, "environment": 4, "limit_exceeded": 1}
_BUG_CODE = 70
_INTERRUPTED_CODE = 130


@dataclass
class _Options:
    file: str | None = None
    sets: list[list[str]] = field(default_factory=list)
    program: list[str] = field(default_factory=list)
    """Its script, or ``-m`` and a module, and its arguments."""
    checkpoint_class: str | None = None
    keep: str | None = None
    other: str | None = None
    batch: int | None = None
    device: str | None = None
    cpu: bool = False
    json: bool = False
    help: bool = False


class _ProgramFailedError(Exception):
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


def is_wanted(words: Sequence[str]) -> bool:
    """Whether the words after ``advise`` ask for this.

    >>> is_wanted(["--verify", "fused", "--", "train.py"]), is_wanted(["run.gmp"])
    (True, False)
    """
    ours = list(words[: words.index("--")]) if "--" in words else list(words)
    return any(word == "--verify" or word.startswith("--verify=") for word in ours)


def _usage(message: str) -> UsageError:
    return UsageError(message, "usage", "", "see gpumemprof advise --verify --help")


def _parse(arguments: Sequence[str]) -> _Options:
    options = _Options()
    words = list(arguments)
    while words and words[0] != "--":
        name, has_value, value = words.pop(0).partition("=")
        if name == "-m":
            words = ["--", "-m", *words]
        elif name in ("-h", "--help"):
            options.help = True
            return options
        elif name in ("--json", "--cpu"):
            setattr(options, name[2:], True)
        elif name in _VALUES:
            # A help flag right after it is meant for the verb: no remedy has such a name.
            if not has_value and words[:1] in (["-h"], ["--help"]):
                continue
            if not has_value and (not words or words[0] == "--"):
                raise _usage(f"{name} needs a value")
            _take(options, name, value if has_value else words.pop(0))
        elif name == "--fit":
            raise _usage("--fit and --verify do not go together")
        elif name.startswith("-"):
            raise _usage(f"advise --verify does not know {name}")
        elif options.file is not None:
            raise _usage("there is more than one FILE; the program comes after --")
        else:
            options.file = name + ("=" + value if has_value else "")
    options.program = words[1:]
    return options


_VALUES = ("--verify", "--checkpoint-class", "--keep", "--with", "--batch", "--device")


def _take(options: _Options, name: str, value: str) -> None:
    if name == "--verify":
        options.sets += [_remedies(words) for words in value.split(",") if words]
    elif name == "--checkpoint-class":
        options.checkpoint_class = value
    elif name == "--keep":
        options.keep = value
    elif name == "--with":
        options.other = value
    elif name == "--device":
        options.device = value
    elif not value.isdecimal() or int(value) == 0:
        raise _usage(f"--batch takes a number above 0, not {value!r}")
    else:
        options.batch = int(value)


_FAMILY = {entry.name: entry.family for entry in _core.remedies()}


def _remedies(words: str) -> list[str]:
    names = list(dict.fromkeys(word.strip() for word in words.split("+")))
    for name in names:
        if name not in apply.NAMES:
            raise _usage(
                f"{name!r} cannot be applied from outside; what can is {', '.join(apply.NAMES)}"
            )
    for one, other in itertools.combinations(sorted(names), 2):
        if _FAMILY[one] == _FAMILY[other]:
            raise _usage(f"{one} and {other} exclude each other")
    return names


def _all_names(options: _Options) -> list[str]:
    return [name for names in options.sets for name in names]


def _check(options: _Options) -> None:
    if not options.sets:
        raise _usage(f"--verify needs a remedy; what can be applied is {', '.join(apply.NAMES)}")
    if not options.program:
        raise _usage("the program is missing; it comes after --, as in -- train.py")
    if options.program[0] == "-m" and len(options.program) == 1:
        raise _usage("-m needs a module")
    if options.program[0] != "-m" and not Path(options.program[0]).exists():
        raise UsageError("no such script", "usage", options.program[0], "name one after --")
    has_checkpointing = any(name.startswith("checkpointing") for name in _all_names(options))
    if options.checkpoint_class is not None and not has_checkpointing:
        raise _usage("--checkpoint-class is for the remedy checkpointing")


# Not -m: that would run files in the current folder that are named like standard modules.
_LAUNCHER = Path(apply.__file__).resolve().parent / "launcher" / "start.py"


def _run(
    options: _Options, folder: Path, name: str, memory: str, remedies: list[str]
) -> tuple[Path, dict[str, Any]]:
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
        env=_environment(remedies),
        stdout=sys.stderr if options.json else None,
    )
    code = _wait(process)
    if code != 0:
        how = f"with {' + '.join(remedies)}" if remedies else "as it is"
        raise _ProgramFailedError(code, how)
    # For one rank of several, the file name also contains the rank.
    found = sorted(folder.glob(f"{name}*.gmp"))
    if not found:
        raise EnvironmentProblem("the program was not recorded", "environment", str(path))
    notes = json.loads(notes_path.read_text()) if notes_path.exists() else {}
    notes_path.unlink(missing_ok=True)
    return found[0], notes


def _wait(process: subprocess.Popen[bytes]) -> int:
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:  # noqa: PERF203 - the program got it too, and ends as it likes
            continue


_CONF_NAMES = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")


def _environment(remedies: list[str]) -> dict[str, str]:
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


def _open(path: str | Path) -> Recording:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CutFileWarning)
        return load(path)


def _memory(options: _Options) -> str:
    """``cpu`` or ``cuda``: what the file recorded, or what this machine has."""
    if options.file is None:
        return "cpu" if options.cpu or not readiness.has_cuda() else "cuda"
    devices = [device.device for device in _open(options.file).devices]
    is_cpu = bool(devices) and all(name.startswith("cpu") for name in devices)
    if not is_cpu and (options.cpu or not readiness.has_cuda()):
        raise EnvironmentProblem(
            "it is a recording of CUDA memory, and this run would be one of CPU tensors",
            "environment",
            options.file,
            "verify it on a machine with CUDA, or leave it out and add --cpu",
        )
    return "cpu" if is_cpu else "cuda"


def _measure(path: Path, device: str, step: StepTime | None) -> Measured:
    recording = _open(path)
    for found in recording.devices:
        if found.device == device:
            told = recording.report(top=0)["input"]
            return Measured(
                found.peak.allocated_bytes,
                None if device.startswith("cpu") else found.peak_reserved_bytes,
                step,
                json.dumps([told["allocator_settings"], told["facts"].get("settings")]),
            )
    raise InputError(f"the run used no memory of {device}", "bad_input", str(path))


def _noted_step(notes: dict[str, Any]) -> StepTime | None:
    """The median step, without the first, which also creates state and warms up."""
    ends = notes.get("step_ends", [])
    steps = sorted(late - early for early, late in zip(ends, ends[1:]))
    if not steps:
        return None
    quarter = len(steps) // 4
    return StepTime(steps[len(steps) // 2], steps[quarter], steps[-1 - quarter])


def _recorded_step(recording: Recording, device: str) -> StepTime | None:
    """The mean step by the host's clock, from events, without the first."""
    steps = recording.report(device=device, top=0)["devices"][0]["steps"] or []
    ends = [step["last_event"] for step in steps if step["step"] > 0]
    if len(ends) < 3:
        return None
    # What follows the last optimizer step is not a whole step.
    first, last = ends[0], ends[-2]
    times = [
        recording.report(at=event, device=device, top=0)["devices"][0]["at"]["time_us"]
        for event in (first, last)
    ]
    if None in times or times[0] == times[1]:
        return None
    return StepTime(float(times[1] - times[0]) / 1e6 / (len(ends) - 2))


def _prediction(advice: dict[str, Any], names: list[str]) -> dict[str, Any]:
    """What the advice predicts for one remedy, or for several together."""
    for entry in advice["remedies"]:
        if {word.strip() for word in entry["name"].split("+")} == set(names):
            return dict(entry)
    return {"why": "The advice does not know this remedy."}


def _verify(options: _Options, folder: Path) -> tuple[Baseline, list[Verdict]]:
    memory = _memory(options)
    for name in _all_names(options):
        if memory == "cpu" and name in apply.NEEDS_CUDA:
            raise _usage(f"{name} is for CUDA: the CPU's memory has no pool")
    path = Path(options.file or "")
    notes: dict[str, Any] = {}
    if options.file is None:
        path, notes = _run(options, folder, "as_it_is", memory, [])
    recording = _open(path)
    if options.file is None and not recording.devices:
        raise InputError(
            "it made no tensors, so there is nothing to advise on",
            "bad_input",
            " ".join(options.program),
            "name a program that trains with torch",
        )
    if recording.cut is not None:
        _say(recording.cut)
    other = None if options.other is None else _open(options.other)
    sets = ["+".join(names) for names in options.sets if len(names) > 1]
    advice = recording.advise(
        batch=options.batch, device=options.device, other=other, together=sets
    )
    device = advice["input"]["device"]
    is_ours = options.file is None
    before = _noted_step(notes) if is_ours else _recorded_step(recording, device)
    baseline = Baseline(
        program=" ".join(options.program),
        path=options.file,
        device=device,
        peak_allocated_bytes=advice["baseline"]["peak_allocated_bytes"],
        peak_reserved_bytes=(
            None if memory == "cpu" else advice["baseline"]["peak_reserved_bytes"]
        ),
        step=before,
    )
    verdicts = []
    for names in options.sets:
        path, notes = _run(options, folder, "+".join(names), memory, names)
        effects = [apply.Effect(**effect) for effect in notes.get("effects", [])]
        after = _noted_step(notes) if is_ours else _recorded_step(_open(path), device)
        measured = _measure(path, device, after)
        verdicts.append(Verdict(names, _prediction(advice, names), measured, effects, baseline))
    return baseline, verdicts


def main(arguments: Sequence[str]) -> int:
    """Run the verb.

    Args:
        arguments: the words after ``advise``.

    Returns:
        0 if everything was compared, 2 for wrong usage or a remedy that changed nothing in this
        program, 3 and 4 as for other verbs; otherwise the program's own exit code.
    """
    try:
        options = _parse(arguments)
        if options.help:
            print(_HELP, end="")
            return 0
        _check(options)
        with contextlib.ExitStack() as stack:
            if options.keep is None:
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            else:
                folder = Path(options.keep)
                folder.mkdir(parents=True, exist_ok=True)
            baseline, verdicts = _verify(options, folder)
    except Error as error:
        _say(str(error))
        return _CODES.get(error.code, _BUG_CODE)
    except _ProgramFailedError as failure:
        _say(str(failure))
        return failure.code
    except OSError as error:
        _say(f"{error.filename or 'the run'}: {error.strerror}")
        return _CODES["environment"]
    except KeyboardInterrupt:
        return _INTERRUPTED_CODE
    print(as_json(baseline, verdicts) if options.json else as_text(baseline, verdicts))
    for verdict in verdicts:
        if verdict.without_effect is not None:
            _say(verdict.without_effect)
    return 2 if any(verdict.without_effect for verdict in verdicts) else 0


def _say(sentence: str) -> None:
    sys.stdout.flush()
    with contextlib.suppress(OSError, ValueError, AttributeError):
        print(f"gpumemprof: {sentence}", file=sys.stderr, flush=True)
