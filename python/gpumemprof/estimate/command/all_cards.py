"""``--gpu all``: which cards the program fits, the smallest that does first.

Kernels depend on the architecture, so the program runs once for each, on a card without a limit;
what each card's memory makes of it is simulated. A program that goes on after memory ran out runs
once for each card.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from gpumemprof.estimate.cards import CARDS, Card
from gpumemprof.estimate.command.answer import head_json
from gpumemprof.estimate.command.options import Options
from gpumemprof.estimate.command.page import paragraph
from gpumemprof.estimate.command.program import AT_ONCE, Run, Trial, UnpredictedError, predict
from gpumemprof.estimate.command.progress import Progress
from gpumemprof.estimate.command.ranks.running import Ranks, need, ranks_sentence
from gpumemprof.estimate.command.single import UNLIMITED_BYTES
from gpumemprof.estimate.command.table import table
from gpumemprof.estimate.command.units import size
from gpumemprof.estimate.command.verdict import Answer, Room, Verdict, judge
from gpumemprof.estimate.ranks.world import World
from gpumemprof.estimate.shelter.shelter import Shelter

__all__ = ["answer", "as_text", "judge_cards"]


@dataclass(frozen=True)
class CardAnswer:
    """One card's row."""

    card: Card
    run: Run
    verdict: Verdict


def answer(options: Options, folder: Path) -> int:
    """Predict for every card and print the table; 0 if one fits."""
    answers, missing = _predict(options, folder)
    if options.json:
        print(_as_json(answers, missing))
    else:
        print(as_text(options.name, answers, missing))
        for line in paragraph(ranks_sentence(options)):
            print(line)
    return 0 if any(entry.verdict.answer is Answer.FITS for entry in answers) else 1


@dataclass(frozen=True)
class MissingCards:
    """Cards of one architecture, for which the program could not be predicted."""

    cards: list[Card]
    problem: UnpredictedError


def _predict(options: Options, folder: Path) -> tuple[list[CardAnswer], list[MissingCards]]:
    groups: dict[tuple[int, int], list[Card]] = {}
    for card in CARDS:
        groups.setdefault(card.capability, []).append(card)
    capabilities = list(groups)

    def run(capability: tuple[int, int]) -> list[CardAnswer] | UnpredictedError:
        try:
            return _answers(options, folder, groups[capability])
        except UnpredictedError as error:
            return error

    answers: list[CardAnswer] = []
    missing: list[MissingCards] = []
    # Ranks are several processes already.
    at_once = AT_ONCE if options.per_node is None else 1
    with Progress(len(groups)) as progress, ThreadPoolExecutor(at_once) as workers:
        progress.show(0, "one run for each architecture")
        for number, found in enumerate(workers.map(run, capabilities)):
            progress.show(min(number + 1, len(groups) - 1), "one run for each architecture")
            if isinstance(found, UnpredictedError):
                missing.append(MissingCards(groups[capabilities[number]], found))
            else:
                answers += found
    if not answers:
        problem = missing[0].problem
        problem.show_output()
        raise problem
    return sorted(answers, key=_order), missing


def _answers(options: Options, folder: Path, cards: list[Card]) -> list[CardAnswer]:
    """For cards of one architecture."""
    limits = [card.free_bytes for card in cards]
    runs = _runs(options, folder, cards[0], UNLIMITED_BYTES, limits)
    if all(run.prediction.out_of_memory is None for run in runs):
        return judge_cards(runs, cards)
    # The program looks for what fits, and finds something else on each card.
    return [
        answer
        for card in cards
        for answer in judge_cards(_runs(options, folder, card, card.free_bytes, ()), [card])
    ]


def _runs(
    options: Options, folder: Path, card: Card, limit_bytes: int, limits: Sequence[int]
) -> list[Run]:
    """The program, or each of its ranks."""
    name = f"{card.id}-{'whole' if limits else 'alone'}"

    def run_rank(place: Path, world: World | None, shelter: Shelter | None) -> Run:
        trial = Trial(
            card,
            limit_bytes,
            place / f"{name}.gmp",
            options.program,
            is_captured=True,
            limits=limits,
            world=world,
            shelter=shelter,
        )
        return predict(options, trial)

    if options.per_node is None:
        return [run_rank(folder, None, None)]
    place = folder / name
    place.mkdir()
    ranks = Ranks(options, place, lambda run: run_rank(run.folder, run.world, run.shelter), True)
    return ranks.predict()


def judge_cards(runs: list[Run], cards: list[Card]) -> list[CardAnswer]:
    """The verdict for each card, from a run of each rank without a limit: that on the worst."""
    return [
        max(
            (CardAnswer(card, run, judge(run.prediction, Room.of_card(card))) for run in runs),
            key=lambda entry: need(entry.verdict),
        )
        for card in cards
    ]


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
        spare = f"-{size(short)}"
    elif verdict.is_tight:
        what = f"{what}, tight"
    return [entry.card.title, entry.card.id, size(peak), size(free), spare, what]


def _shortages(answers: list[CardAnswer]) -> list[str]:
    """Where memory runs out, and on which cards."""
    titles: dict[str, list[str]] = {}
    for entry in answers:
        if entry.verdict.line:
            titles.setdefault(entry.verdict.line, []).append(entry.card.title)
    return [
        line
        for where, cards in titles.items()
        for line in paragraph(f"Memory runs out at {where}: {', '.join(cards)}.")
    ]


def _as_json(answers: list[CardAnswer], missing: list[MissingCards]) -> str:
    found = {
        "schema_version": 1,
        "provenance": "predicted",
        "cards": [head_json(entry.card, entry.run, entry.verdict) for entry in answers],
        "not_predicted": [
            {"card": card.id, "problem": str(each.problem)}
            for each in missing
            for card in each.cards
        ],
    }
    return json.dumps(found, indent=2)


def as_text(name: str, answers: list[CardAnswer], missing: Sequence[MissingCards] = ()) -> str:
    """The table, with the smallest card that fits as its first sentence."""
    fitting = [entry for entry in answers if entry.verdict.answer is Answer.FITS]
    if fitting:
        card = fitting[0].card
        first = f"{name} fits {len(fitting)} of {len(answers)} cards; the smallest: {card.title}"
    else:
        first = f"{name} fits none of {len(answers)} cards"
    lines = paragraph(first)
    for each in missing:
        titles = ", ".join(card.title for card in each.cards)
        lines += paragraph(f"Not predicted: {titles}: {each.problem}", 2)
    lines.append("")
    lines += table([_HEAD, *(_row(entry) for entry in answers)], _IS_TEXT)
    lines += [
        "",
        *_shortages(answers),
        *paragraph(
            "peak: what PyTorch's pool would grow to on a card without a limit; of: what is free "
            "after the context. tight: it fits by giving cached memory back, which slows it down."
        ),
    ]
    return "\n".join(lines)
