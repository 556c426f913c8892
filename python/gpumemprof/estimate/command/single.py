"""One program on one card: the run, and what would be needed if it does not fit."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from gpumemprof.estimate.cards import Card
from gpumemprof.estimate.command.options import Options
from gpumemprof.estimate.command.program import Run, Trial, UnpredictedError, predict
from gpumemprof.estimate.command.progress import Progress
from gpumemprof.estimate.command.verdict import Answer, Room, Verdict, judge
from gpumemprof.estimate.ranks.world import World
from gpumemprof.estimate.shelter.shelter import Shelter
from gpumemprof.verify.program import open_quietly

__all__ = ["UNLIMITED_BYTES", "Single", "exit_code", "predict_for_card"]

# More than any program that ends needs on one card. One that takes all it can get, such as a search
# for the largest batch, ends here within seconds.
UNLIMITED_BYTES = 1 << 45


@dataclass(frozen=True)
class Single:
    """The prediction for one card."""

    card: Card
    run: Run
    verdict: Verdict
    whole: Run
    """The same as `run`, or the run on a card that is large enough."""


def predict_for_card(
    options: Options,
    folder: Path,
    is_captured: bool = False,
    world: World | None = None,
    shelter: Shelter | None = None,
) -> Single:
    """Predict the program, or one rank of it; if it does not fit, also what it would need."""
    card = options.card
    trial = Trial(
        card,
        card.free_bytes,
        _path(options, folder),
        options.program,
        is_captured=is_captured,
        world=world,
        shelter=shelter,
    )
    run = predict(options, trial)
    whole = run
    if run.prediction.has_failed:
        # Where output is captured, several programs run, and another line shows how far they are.
        with Progress(2, is_shown=not is_captured) as progress:
            progress.show(1, "what the whole run would need")
            whole = _whole(options, folder, run, world)
    room = Room.of_card(card)
    verdict = judge(run.prediction, room, whole.prediction if whole is not run else None)
    return Single(card, _kept(options, run), verdict, whole)


def exit_code(verdict: Verdict) -> int:
    """0 only if it surely fits."""
    return 0 if verdict.answer is Answer.FITS else 1


def _path(options: Options, folder: Path) -> Path:
    """Its name is the head of the report."""
    stem = options.name if options.is_module else Path(options.name).stem
    return folder / (Path(options.output).name if options.output else f"{stem}.gmp")


def _whole(options: Options, folder: Path, run: Run, world: World | None) -> Run:
    path = folder / "whole" / _path(options, folder).name
    path.parent.mkdir()
    trial = Trial(
        options.card, UNLIMITED_BYTES, path, options.program, is_captured=True, world=world
    )
    try:
        return predict(options, trial)
    except UnpredictedError:  # The first run shows as much as can be known.
        return run


def _kept(options: Options, run: Run) -> Run:
    """The run, with its recording where the user wants it."""
    if options.output is None:
        return run
    shutil.copyfile(run.path, options.output)
    path = Path(options.output)
    return replace(run, path=path, recording=open_quietly(path))
