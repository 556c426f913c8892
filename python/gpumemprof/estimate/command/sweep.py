"""``--sweep``: the program with several values of its own flags, and the largest that fits."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gpumemprof.errors import UsageError
from gpumemprof.estimate.command.answer import head_json
from gpumemprof.estimate.command.options import Options
from gpumemprof.estimate.command.page import paragraph
from gpumemprof.estimate.command.program import AT_ONCE, Run, UnpredictedError
from gpumemprof.estimate.command.progress import Progress
from gpumemprof.estimate.command.ranks.answer import predict_ranks, worst
from gpumemprof.estimate.command.ranks.running import ranks_sentence
from gpumemprof.estimate.command.single import predict_for_card
from gpumemprof.estimate.command.sweep_flags import (
    Combination,
    SweptFlag,
    combinations,
    exact_flags,
    with_values,
)
from gpumemprof.estimate.command.table import bar, table
from gpumemprof.estimate.command.units import size
from gpumemprof.estimate.command.verdict import Answer, Room, Verdict

__all__ = ["SweepPoint", "answer", "as_text"]

_BAR_WIDTH = 20
_USAGE_CODE = "exit code 2"


@dataclass(frozen=True)
class SweepPoint:
    """One combination of values."""

    values: Combination
    run: Run | None
    """On a card that is large enough, if it does not fit."""
    verdict: Verdict | None
    problem: UnpredictedError | None = None
    """Why it could not be predicted."""
    rank: int | None = None
    """The one that needs most, if the program has several; the others are left out."""


def answer(options: Options, folder: Path) -> int:
    """Predict every combination and print the table; 0 if one fits."""
    flags = exact_flags(_script_and_arguments(options), options.sweeps)
    points = _predict(options, flags, folder)
    problems = [point.problem for point in points if point.problem is not None]
    if len(problems) == len(points):
        raise _refusal(options, flags, problems[0])
    if options.json:
        print(_as_json(options, flags, points))
    else:
        print(as_text(options.name, Room.of_card(options.card), flags, points))
        for line in paragraph(ranks_sentence(options)):
            print(line)
    return 0 if _largest(points) is not None else 1


def _script_and_arguments(options: Options) -> list[str]:
    return options.program[1:] if options.is_module else options.program


def _predict(options: Options, flags: list[SweptFlag], folder: Path) -> list[SweepPoint]:
    tried = combinations(flags)
    head = options.program[: 2 if options.is_module else 1]

    def point(number: int) -> SweepPoint:
        program = [*head, *with_values(options.program[len(head) :], flags, tried[number])]
        place = folder / str(number)
        place.mkdir()
        trial = replace(options, program=program)
        try:
            if options.per_node is None:
                single, rank = predict_for_card(trial, place, is_captured=True), None
            else:
                chosen = worst(predict_ranks(trial, place, is_captured=True))
                single, rank = chosen.single, chosen.world.rank
        except UnpredictedError as error:
            return SweepPoint(tried[number], None, None, error)
        return SweepPoint(tried[number], single.whole, single.verdict, rank=rank)

    points = []
    # Ranks are several processes already.
    at_once = AT_ONCE if options.per_node is None else 1
    with Progress(len(tried)) as progress, ThreadPoolExecutor(at_once) as workers:
        progress.show(0, _written(flags, tried[0]))
        for number, found in enumerate(workers.map(point, range(len(tried)))):
            points.append(found)
            if number + 1 < len(tried):
                progress.show(number + 1, _written(flags, tried[number + 1]))
    return points


def _refusal(options: Options, flags: list[SweptFlag], problem: UnpredictedError) -> Exception:
    """Why not a single combination could be predicted."""
    problem.show_output()
    if _USAGE_CODE not in problem.message:
        return problem
    first = _written(flags, tuple(swept.values[0] for swept in flags))
    return UsageError(
        f"{options.name} does not take {first} (see its message above)",
        "usage",
        "",
        f"python {options.name} --help shows the flags it has",
    )


def _written(flags: list[SweptFlag], values: Combination) -> str:
    return " ".join(f"{swept.flag} {value}" for swept, value in zip(flags, values))


def _largest(points: list[SweepPoint]) -> SweepPoint | None:
    """What fits and takes the most memory; of equals, that with the largest values."""
    fitting = [point for point in points if _fits(point)]
    return max(fitting, key=lambda point: (_peak(point), _numbers(point.values)), default=None)


def _numbers(values: Combination) -> list[float]:
    return [_number(value) for value in values]


def _number(value: str) -> float:
    """Zero for what is no number."""
    try:
        return float(value)
    except ValueError:
        return 0.0


def _is_ignored(points: list[SweepPoint]) -> bool:
    """No value changes anything."""
    found = {
        (point.run.prediction.allocated_bytes, point.run.prediction.reserved_bytes)
        for point in points
        if point.run is not None
    }
    return len(points) > 1 and len(found) == 1


def _fits(point: SweepPoint) -> bool:
    return point.verdict is not None and point.verdict.answer is Answer.FITS


def _peak(point: SweepPoint) -> int:
    return 0 if point.run is None else point.run.prediction.reserved_bytes


def as_text(name: str, room: Room, flags: list[SweptFlag], points: list[SweepPoint]) -> str:
    """The table with a bar for each row; the right edge of a full bar is the card's free memory."""
    largest = _largest(points)
    free = room.free_bytes
    if largest is None:
        first = f"{name} fits {room.title} with none of these values"
    else:
        spare = size(free - min(free, _peak(largest)))
        best = _written(flags, largest.values)
        first = f"{name} fits {room.title} with up to {best}: {spare} to spare"
    head = [*(swept.name for swept in flags), "allocated", "reserved", "", ""]
    rows = [head, *(_row(point, free) for point in points)]
    is_text = [*(False for _ in flags), False, False, True, True]
    problems = [point for point in points if point.problem is not None]
    lines = [*paragraph(first), "", *table(rows, is_text), ""]
    lines += paragraph(f"A full bar is {size(free)}, what {room.title} has free after the context.")
    if _is_ignored(points):
        names = " and ".join(swept.flag for swept in flags)
        lines += paragraph(f"All of them need the same: does {name} use {names}?")
    for point in problems[:3]:
        lines += paragraph(f"{_written(flags, point.values)}: {point.problem}")
    return "\n".join(lines)


def _row(point: SweepPoint, free_bytes: int) -> list[str]:
    if point.verdict is None or point.run is None:
        return [*point.values, "-", "-", "", "not predicted"]
    prediction = point.run.prediction
    drawn = bar(_peak(point) / free_bytes, _BAR_WIDTH)
    short = point.verdict.short_bytes
    what = point.verdict.answer.value
    return [
        *point.values,
        size(prediction.allocated_bytes),
        size(prediction.reserved_bytes),
        drawn.ljust(_BAR_WIDTH),
        what if short is None else f"short by {size(short)}",
    ]


def _as_json(options: Options, flags: list[SweptFlag], points: list[SweepPoint]) -> str:
    def row(point: SweepPoint) -> dict[str, Any]:
        values = {swept.flag: value for swept, value in zip(flags, point.values)}
        if point.run is None or point.verdict is None:
            return {"values": values, "problem": str(point.problem)}
        found = {"values": values, **head_json(options.card, point.run, point.verdict)}
        return found if point.rank is None else {**found, "worst_rank": point.rank}

    largest = _largest(points)
    return json.dumps(
        {
            "schema_version": 1,
            "provenance": "predicted",
            "program": options.program,
            "largest_that_fits": None if largest is None else row(largest)["values"],
            "runs": [row(point) for point in points],
        },
        indent=2,
    )
