"""Predicts the program as it is and with remedies; of several ranks, the worst decides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gpumemprof.estimate.command.fit.plans import Plan, refusal, tried_plans
from gpumemprof.estimate.command.options import Options
from gpumemprof.estimate.command.program import Run, Trial, UnpredictedError, predict
from gpumemprof.estimate.command.progress import Progress
from gpumemprof.estimate.command.ranks.answer import kept_ranks, predict_ranks
from gpumemprof.estimate.command.ranks.running import Ranks, need
from gpumemprof.estimate.command.single import Single, predict_for_card
from gpumemprof.estimate.command.verdict import Answer, Room, Verdict, judge
from gpumemprof.estimate.ranks.world import World
from gpumemprof.estimate.shelter.shelter import Shelter

__all__ = ["Fitted", "Outcome", "fit"]


@dataclass(frozen=True)
class Outcome:
    """What came of a plan: a second prediction, or why there is none."""

    plan: Plan
    run: Run | None = None
    """Of the rank that needs most."""
    verdict: Verdict | None = None
    world: World | None = None
    problem: str = ""

    @property
    def fits(self) -> bool:
        """Whether the program surely fits with it."""
        return self.verdict is not None and self.verdict.answer is Answer.FITS


@dataclass(frozen=True)
class Fitted:
    """Everything that ``--fit`` found."""

    single: Single
    """Of the rank that needs most, if there are several."""
    as_it_is: Verdict
    """Whether the program fits the size without a remedy."""
    world: World | None = None
    refusal: str = ""
    """Why there is no plan."""
    outcomes: list[Outcome] = field(default_factory=list)
    """Of the plans in the order in which they were tried; the last one counts if it fits."""

    @property
    def answer(self) -> Answer:
        """Whether it fits, as it is or with a plan."""
        if self.as_it_is.answer is Answer.FITS or self.proven is not None:
            return Answer.FITS
        return Answer.DOES_NOT_FIT

    @property
    def proven(self) -> Outcome | None:
        """The plan with which it fits."""
        return next((outcome for outcome in self.outcomes if outcome.fits), None)

    @property
    def shown(self) -> Outcome | None:
        """The plan that the answer is about: the cheapest one if none is enough."""
        return self.proven or (self.outcomes[0] if self.outcomes else None)


def fit(options: Options, folder: Path) -> Fitted:
    """Predict the program, take advice on its worst rank, and predict all ranks with it."""
    limit = options.fit_bytes or 0
    room = Room.of_size(limit)
    single, world = _worst_as_it_is(_predicted(options, folder), room)
    as_it_is = judge(single.whole.prediction, room)
    if as_it_is.answer is Answer.FITS:
        return Fitted(single, as_it_is, world)
    advice = single.whole.recording.advise(fit=limit)
    plans = tried_plans(advice, limit)
    if not plans:
        return Fitted(single, as_it_is, world, refusal(advice["fit"]))
    outcomes: list[Outcome] = []
    with Progress(1 + len(plans)) as progress:
        for number, plan in enumerate(plans):
            progress.show(1 + number, f"with {plan.title}")
            outcomes.append(_outcome(options, plan, room, folder / f"fit{number}"))
            if outcomes[-1].fits:
                break
    return Fitted(single, as_it_is, world, outcomes=outcomes)


_Predicted = Sequence[tuple[Single, "World | None"]]


def _predicted(options: Options, folder: Path) -> _Predicted:
    if options.per_node is None:
        return [(predict_for_card(options, folder), None)]
    answers = kept_ranks(options, predict_ranks(options, folder))
    return [(entry.single, entry.world) for entry in answers]


def _worst_as_it_is(predicted: _Predicted, room: Room) -> tuple[Single, World | None]:
    """The card may be larger than the size: the rank that needs most is the one that counts."""
    return max(predicted, key=lambda entry: need(judge(entry[0].whole.prediction, room)))


def _outcome(options: Options, plan: Plan, room: Room, folder: Path) -> Outcome:
    if plan.cannot_be_applied:
        names = " and ".join(plan.cannot_be_applied)
        problem = f"{names} cannot be applied from outside, so this was not predicted again"
        return Outcome(plan, problem=problem)
    folder.mkdir()
    try:
        runs = _runs_with(options, plan, room, folder)
    except UnpredictedError as error:
        return Outcome(plan, problem=str(error))
    if idle := _idle_remedy(runs):
        return Outcome(plan, problem=idle)
    judged = [(run, judge(run.prediction, room), world) for run, world in runs]
    run, verdict, world = max(judged, key=lambda entry: need(entry[1]))
    return Outcome(plan, run, verdict, world)


_Runs = Sequence[tuple[Run, "World | None"]]


def _runs_with(options: Options, plan: Plan, room: Room, folder: Path) -> _Runs:
    def run(place: Path, world: World | None, shelter: Shelter | None) -> tuple[Run, World | None]:
        trial = Trial(
            options.card,
            room.free_bytes,
            place / "fit.gmp",
            options.program,
            remedies=plan.names,
            blocks=plan.blocks,
            is_captured=True,
            world=world,
            shelter=shelter,
        )
        return predict(options, trial), world

    if options.per_node is None:
        return [run(folder, None, None)]
    ranks = Ranks(options, folder, lambda rank: run(rank.folder, rank.world, rank.shelter), True)
    return ranks.predict()


def _idle_remedy(runs: _Runs) -> str:
    """A remedy that changed nothing in any rank; a stage of a pipeline may have nothing for it."""
    for effects in zip(*(run.effects for run, _ in runs)):
        if all(effect.count == 0 for effect in effects):
            return f"{effects[0].name} changed nothing in this program: {effects[0].what}"
    return ""
