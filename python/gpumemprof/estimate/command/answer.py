"""The answer for one card: the verdict, the ordinary report, and what was assumed."""

from __future__ import annotations

import json
from typing import Any

from gpumemprof.estimate.cards import ASSUMED, GIVEN, MEASURED, PUBLISHED, Card
from gpumemprof.estimate.command.bands import Band
from gpumemprof.estimate.command.files import files_json, files_text
from gpumemprof.estimate.command.options import Options
from gpumemprof.estimate.command.page import page_width, paragraph
from gpumemprof.estimate.command.prediction import Assumption
from gpumemprof.estimate.command.program import Run
from gpumemprof.estimate.command.single import Single
from gpumemprof.estimate.command.units import size
from gpumemprof.estimate.command.verdict import Verdict

__all__ = [
    "as_json",
    "as_text",
    "assumptions_text",
    "failures_text",
    "head_json",
    "peaks_sentence",
    "report_text",
]

_MOST_ASSUMPTIONS = 20
_MANY_READS = 100


def as_text(options: Options, single: Single) -> str:
    """For people."""
    verdict = single.verdict
    lines = paragraph(verdict.about(options.name))
    lines += failures_text(single.run.prediction.assumptions)
    lines += paragraph(peaks_sentence(verdict), 2)
    lines += paragraph(_basis(options, single), 2)
    report = report_text(options, single.run)
    lines += ["", report.rstrip("\n"), "", *assumptions_text(single.run.prediction.assumptions)]
    lines += files_text(single.run)
    if options.output is None:
        lines += ["", "Keep it for report, view, simulate and advise: add -o FILE.gmp"]
    return "\n".join(lines)


def report_text(options: Options, run: Run) -> str:
    """The ordinary report; where no file was kept, it names none."""
    report = run.recording.to_text(width=page_width())
    if options.output is not None:
        return report
    report = report.partition("\nNext: ")[0]
    lines = report.replace(f"{run.path.name}: ", f"{options.name}: ", 1).splitlines()
    return "\n".join(line for line in lines if str(run.path.parent) not in line)


def peaks_sentence(verdict: Verdict) -> str:
    """Both peaks, with their bands."""
    prediction, expected = verdict.prediction, verdict.bands
    text = (
        f"Predicted peak: {size(prediction.allocated_bytes)} allocated "
        f"({_between(expected.allocated)}), {size(prediction.reserved_bytes)} reserved "
        f"({_between(expected.reserved)})."
    )
    if prediction.has_failed:
        text = text.replace("Predicted peak", "Predicted peak until then", 1)
        if verdict.needed_bytes is not None:
            text += f" The whole run needs {size(verdict.needed_bytes)}."
    if not expected.is_certainty_known:
        text += " Which rules were used is not known, so the bands are wide."
    return text


def _between(band: Band) -> str:
    return f"{size(band.low_bytes)} to {size(band.high_bytes)}"


def _basis(options: Options, single: Single) -> str:
    notes = single.run.notes
    steps = f"{notes.steps} optimizer step{'' if notes.steps == 1 else 's'}"
    if notes.ended == "limit":
        ran = _stopped(options, notes.line, steps, single.run.prediction.assumptions)
    elif notes.ended == "steps":
        ran = f"It was stopped after {steps}, as --steps says; the rest was not predicted."
        if grown := single.run.prediction.grown_bytes_per_step:
            ran += f" Memory grew by {size(grown)} a step: the whole run needs more, --steps all."
    elif notes.steps:
        ran = f"It ran to its end, with {steps}."
    else:
        ran = "It ran to its end, without an optimizer step."
    if single.run.prediction.has_failed:
        ran = f"It ended there, after {steps}."
    elif (oom := single.run.prediction.out_of_memory) is not None:
        at = f" at {oom.where}" if oom.where else ""
        ran = f"Memory ran out{at} in between, and the program went on. {ran}"
    return f"{ran} {_card_sentence(single.card)}"


def _stopped(options: Options, line: str, steps: str, assumptions: list[Assumption]) -> str:
    at = f" at {line}" if line else ""
    text = (
        f"It was stopped after {options.seconds:.0f} s{at}, after {steps}: a later peak is unknown"
    )
    # A loop that waits for a computed value reads it again and again.
    read = [entry for entry in assumptions if entry.kind == "value" and entry.where]
    often = max(read, key=lambda entry: entry.count, default=None)
    if often is not None and often.count >= _MANY_READS:
        return (
            f"{text}; if it waits for the value that {often.where} reads, "
            f"set that with --assume {often.where}=VALUE."
        )
    return f"{text}; --limit SECONDS gives it more time."


_FROM = {
    MEASURED: "measured",
    PUBLISHED: "from its data sheet",
    ASSUMED: "assumed",
    GIVEN: "as --gpu says",
}


def _card_sentence(card: Card) -> str:
    total, context = _FROM[card.total_from], _FROM[card.context_from]
    taken = f"what CUDA's own context takes of it ({size(card.context_bytes)})"
    if total == context:
        return f"The size of the card's memory and {taken} are {total}."
    return f"The size of the card's memory is {total}, {taken} is {context}."


def failures_text(assumptions: list[Assumption]) -> list[str]:
    """Why the program would fail on a GPU, though it was predicted to its end."""
    lines = []
    for entry in assumptions:
        if entry.kind == "failure":
            where = f"{entry.where}: " if entry.where else ""
            lines += paragraph(f"But {where}{entry.text}", 2)
    return lines


def assumptions_text(assumptions: list[Assumption]) -> list[str]:
    """What was assumed, with the lines."""
    assumptions = [entry for entry in assumptions if entry.kind != "failure"]
    if not assumptions:
        return ["Nothing had to be assumed."]
    lines = ["What was assumed:"]
    for entry in assumptions[:_MOST_ASSUMPTIONS]:
        times = "" if entry.count == 1 else f" ({entry.count:,} times)"
        where = f"{entry.where}: " if entry.where else ""
        lines += paragraph(f"{where}{entry.text}{times}", 2)
    if len(assumptions) > _MOST_ASSUMPTIONS:
        lines.append(f"  … and {len(assumptions) - _MOST_ASSUMPTIONS} more; --json lists all")
    if any(entry.kind in ("value", "shape") for entry in assumptions):
        lines.append("Set a value with --assume FILE:LINE=VALUE.")
    return lines


def as_json(options: Options, single: Single) -> str:
    """For scripts: the report's JSON, and what this command adds."""
    return json.dumps(
        {**head_json(single.card, single.run, single.verdict), **single.run.recording.report()},
        indent=2,
    )


def head_json(card: Card, run: Run, verdict: Verdict) -> dict[str, Any]:
    """What is said about one prediction."""
    prediction, expected = run.prediction, verdict.bands
    return {
        "provenance": "predicted",
        "verdict": verdict.to_json(),
        "card": {
            "id": card.id,
            "name": card.name,
            "total_bytes": card.total_bytes,
            "total_provenance": card.total_from,
            "context_bytes": card.context_bytes,
            "context_provenance": card.context_from,
        },
        "bands": {
            "peak_allocated": expected.allocated.to_json(),
            "peak_reserved": expected.reserved.to_json(),
            "bytes_by_certainty": prediction.certainty,
        },
        "ended": run.notes.ended or None,
        "optimizer_steps": run.notes.steps,
        **files_json(run),
        "assumptions": [
            {
                "kind": entry.kind,
                "text": entry.text,
                "file": entry.file or None,
                "line": entry.line or None,
                "count": entry.count,
            }
            for entry in prediction.assumptions
        ],
    }
