"""``--gpu all``: which cards the program fits, the smallest that does first.

Kernels depend on the architecture, so the program runs once for each, on a card without a limit;
what each card's memory makes of it is simulated.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from gpumemprof.estimate.cards import CARDS, Card
from gpumemprof.estimate.command.answer import head_json
from gpumemprof.estimate.command.options import Options
from gpumemprof.estimate.command.page import paragraph
from gpumemprof.estimate.command.program import AT_ONCE, Run, Trial, UnpredictedError, predict
from gpumemprof.estimate.command.progress import Progress
from gpumemprof.estimate.command.single import UNLIMITED_BYTES
from gpumemprof.estimate.command.table import table
from gpumemprof.estimate.command.units import size
from gpumemprof.estimate.command.verdict import Answer, Room, Verdict, judge

__all__ = ["answer", "as_text", "judge_cards"]


@dataclass(frozen=True)
class CardAnswer:
    """One card's row."""

    card: Card
    run: Run
    verdict: Verdict


def answer(options: Options, folder: Path) -> int:
    """Predict for every card and print the table; 0 if one fits."""
    answers = _predict(options, folder)
    if options.json:
        rows = [head_json(entry.card, entry.run, entry.verdict) for entry in answers]
        print(json.dumps({"schema_version": 1, "provenance": "predicted", "cards": rows}, indent=2))
    else:
        print(as_text(options.name, answers))
    return 0 if any(entry.verdict.answer is Answer.FITS for entry in answers) else 1


def _predict(options: Options, folder: Path) -> list[CardAnswer]:
    groups: dict[tuple[int, int], list[Card]] = {}
    for card in CARDS:
        groups.setdefault(card.capability, []).append(card)
    capabilities = list(groups)

    def run(capability: tuple[int, int]) -> Run | UnpredictedError:
        cards = groups[capability]
        trial = Trial(
            cards[0],
            UNLIMITED_BYTES,
            folder / f"sm{capability[0]}{capability[1]}.gmp",
            options.program,
            is_captured=True,
            limits=[card.free_bytes for card in cards],
        )
        try:
            return predict(options, trial)
        except UnpredictedError as error:
            return error

    answers: list[CardAnswer] = []
    problem: UnpredictedError | None = None
    with Progress(len(groups)) as progress, ThreadPoolExecutor(AT_ONCE) as workers:
        progress.show(0, "one run for each architecture")
        for number, found in enumerate(workers.map(run, capabilities)):
            progress.show(min(number + 1, len(groups) - 1), "one run for each architecture")
            if isinstance(found, UnpredictedError):
                problem = found
            else:
                answers += judge_cards(found, groups[capabilities[number]])
    if not answers and problem is not None:
        problem.show_output()
        raise problem
    return sorted(answers, key=_order)


def judge_cards(run: Run, cards: list[Card]) -> list[CardAnswer]:
    """The verdict for each card, from one run without a limit."""
    return [CardAnswer(card, run, judge(run.prediction, Room.of_card(card))) for card in cards]


_ANSWERS = (Answer.FITS, Answer.MAY_NOT_FIT, Answer.DOES_NOT_FIT)


def _order(entry: CardAnswer) -> tuple[int, int]:
    """What fits comes first, the smallest of them first; then what comes closest to fitting."""
    place = _ANSWERS.index(entry.verdict.answer)
    free = entry.card.free_bytes
    return place, free if entry.verdict.answer is Answer.FITS else -free


_HEAD = ["card", "--gpu", "peak", "of", "spare", ""]
_IS_TEXT = [True, True, False, False, False, True]


def _row(entry: CardAnswer) -> list[str]:
    verdict = entry.verdict
    free = verdict.room.free_bytes
    peak = verdict.prediction.reserved_bytes
    short = verdict.short_bytes
    spare = size(free - peak) if free >= peak else "-"
    what = verdict.answer.value
    if short is not None:
        where = f" at {verdict.line}" if verdict.line else ""
        spare, what = f"-{size(short)}", f"{what}:{where or ' out of memory'}"
    elif verdict.is_tight:
        what = f"{what}, tight"
    return [entry.card.title, entry.card.id, size(peak), size(free), spare, what]


def as_text(name: str, answers: list[CardAnswer]) -> str:
    """The table, with the smallest card that fits as its first sentence."""
    fitting = [entry for entry in answers if entry.verdict.answer is Answer.FITS]
    if fitting:
        card = fitting[0].card
        first = f"{name} fits {len(fitting)} of {len(answers)} cards; the smallest: {card.title}"
    else:
        first = f"{name} fits none of {len(answers)} cards"
    lines = [*paragraph(first), ""]
    lines += table([_HEAD, *(_row(entry) for entry in answers)], _IS_TEXT)
    lines += [
        "",
        *paragraph(
            "peak: what PyTorch's pool would grow to on a card without a limit; of: what is free "
            "after the context. tight: it fits by giving cached memory back, which slows it down."
        ),
    ]
    return "\n".join(lines)
