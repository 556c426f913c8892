"""``gpumemprof advise --verify``: runs a program with remedies to check the predictions.

Every run is a separate process, recorded as ``gpumemprof run`` does. Only the remedy changes the
program; see `apply`.
"""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from gpumemprof.errors import EnvironmentProblem, Error, InputError
from gpumemprof.read.json_advice import AdviceJson
from gpumemprof.read.recording import Recording
from gpumemprof.torch_calls import readiness
from gpumemprof.verify import apply
from gpumemprof.verify.options import HELP, Options, is_wanted, parse, usage
from gpumemprof.verify.program import ProgramFailedError, RunNotes, open_quietly, run_program
from gpumemprof.verify.result import Baseline, Measured, Prediction, RemedyResult, StepTime
from gpumemprof.verify.result_text import as_json, as_text

__all__ = ["is_wanted", "main"]

_CODES = {"usage": 2, "bad_input": 3, "environment": 4, "limit_exceeded": 1}
_BUG_CODE = 70
_INTERRUPTED_CODE = 130


def _memory(options: Options) -> str:
    """``cpu`` or ``cuda``: what the file recorded, or what this machine has."""
    if options.file is None:
        return "cpu" if options.cpu or not readiness.has_cuda() else "cuda"
    devices = [device.device for device in open_quietly(options.file).devices]
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
    recording = open_quietly(path)
    for found in recording.devices:
        if found.device == device:
            facts = recording.report(top=0)["input"]
            return Measured(
                found.peak.allocated_bytes,
                None if device.startswith("cpu") else found.peak_reserved_bytes,
                step,
                json.dumps([facts["allocator_settings"], facts["facts"].get("settings")]),
            )
    raise InputError(f"the run allocated nothing on {device}", "bad_input", str(path))


def _noted_step(notes: RunNotes) -> StepTime | None:
    """The median step, without the first, which also creates state and warms up."""
    ends = notes.step_ends
    steps = sorted(late - early for early, late in zip(ends, ends[1:]))
    if not steps:
        return None
    quarter = len(steps) // 4
    return StepTime(steps[len(steps) // 2], steps[quarter], steps[-1 - quarter])


def _recorded_step(recording: Recording, device: str) -> StepTime | None:
    """The mean step by the host's clock, from events, without the first."""
    steps = recording.report(device=device, top=0)["devices"][0]["steps"]
    ends = [step["last_event"] for step in steps if step["step"] > 0]
    if len(ends) < 3:
        return None
    # What follows the last optimizer step is not a whole step.
    first, last = ends[0], ends[-2]
    start_us, end_us = (
        recording.report(at=event, device=device, top=0)["devices"][0]["at"]["time_us"]
        for event in (first, last)
    )
    if start_us is None or end_us is None or start_us == end_us:
        return None
    return StepTime(float(end_us - start_us) / 1e6 / (len(ends) - 2))


def _prediction(advice: AdviceJson, names: list[str]) -> Prediction:
    """What the advice predicts for one remedy, or for several together."""
    for entry in advice["remedies"]:
        if {word.strip() for word in entry["name"].split("+")} == set(names):
            return Prediction.from_json(entry)
    return Prediction.unknown("There is no prediction for this remedy.")


def _verify(options: Options, folder: Path) -> tuple[Baseline, list[RemedyResult]]:
    memory = _memory(options)
    for name in options.remedies:
        if memory == "cpu" and name in apply.NEEDS_CUDA:
            raise usage(f"{name} needs CUDA: CPU memory has no pool")
    path = Path(options.file or "")
    notes = RunNotes()
    if options.file is None:
        path, notes = run_program(options, folder, "as_it_is", memory, [])
    recording = open_quietly(path)
    if options.file is None and not recording.devices:
        raise InputError(
            "the program created no tensors, so there is nothing to advise on",
            "bad_input",
            " ".join(options.program),
            "name a program that trains with torch",
        )
    if recording.cut is not None:
        _print_message(recording.cut)
    other = None if options.other is None else open_quietly(options.other)
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
        peak_reserved_bytes=advice["baseline"]["peak_reserved_bytes"],
        step=before,
    )
    results = []
    for names in options.sets:
        path, notes = run_program(options, folder, "+".join(names), memory, names)
        after = _noted_step(notes) if is_ours else _recorded_step(open_quietly(path), device)
        measured = _measure(path, device, after)
        results.append(
            RemedyResult(names, _prediction(advice, names), measured, notes.effects, baseline)
        )
    return baseline, results


def main(arguments: Sequence[str]) -> int:
    """Run the verb.

    Args:
        arguments: the words after ``advise``.

    Returns:
        0 if everything was compared, 2 for wrong usage or a remedy that changed nothing in this
        program, 3 and 4 as for other verbs; otherwise the program's own exit code.
    """
    try:
        options = parse(arguments)
        if options is None:
            print(HELP, end="")
            return 0
        with contextlib.ExitStack() as stack:
            if options.keep is None:
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            else:
                folder = Path(options.keep)
                folder.mkdir(parents=True, exist_ok=True)
            baseline, results = _verify(options, folder)
    except Error as error:
        _print_message(str(error))
        return _CODES.get(error.code, _BUG_CODE)
    except ProgramFailedError as failure:
        _print_message(str(failure))
        return failure.code
    except OSError as error:
        _print_message(f"{error.filename or 'the run'}: {error.strerror}")
        return _CODES["environment"]
    except KeyboardInterrupt:
        return _INTERRUPTED_CODE
    print(as_json(baseline, results) if options.json else as_text(baseline, results))
    for result in results:
        if result.without_effect is not None:
            _print_message(result.without_effect)
    return 2 if any(result.without_effect for result in results) else 0


def _print_message(sentence: str) -> None:
    sys.stdout.flush()
    with contextlib.suppress(OSError, ValueError, AttributeError):
        print(f"gpumemprof: {sentence}", file=sys.stderr, flush=True)
