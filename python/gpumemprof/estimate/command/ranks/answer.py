"""``--nproc``: each rank of a program that torchrun would start, and the verdict on the worst."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gpumemprof.estimate.command.answer import (
    assumptions_text,
    failures_text,
    head_json,
    peaks_sentence,
    report_text,
)
from gpumemprof.estimate.command.files import files_text
from gpumemprof.estimate.command.options import Options
from gpumemprof.estimate.command.page import paragraph
from gpumemprof.estimate.command.ranks.running import RankRun, Ranks, need
from gpumemprof.estimate.command.single import Single, exit_code, predict_for_card
from gpumemprof.estimate.command.table import table
from gpumemprof.estimate.command.units import size
from gpumemprof.estimate.command.verdict import Verdict
from gpumemprof.estimate.ranks.world import World, rank_path
from gpumemprof.verify.program import open_quietly

__all__ = ["RankAnswer", "answer", "as_text", "kept_ranks", "predict_ranks", "worst"]


@dataclass(frozen=True)
class RankAnswer:
    """One rank's row."""

    world: World
    single: Single

    @property
    def verdict(self) -> Verdict:
        """On this rank's card."""
        return self.single.verdict


def answer(options: Options, folder: Path) -> int:
    """Predict the ranks and print the table; 0 if all fit."""
    answers = kept_ranks(options, predict_ranks(options, folder))
    print(_as_json(options, answers) if options.json else as_text(options, answers))
    return exit_code(worst(answers).verdict)


def predict_ranks(options: Options, folder: Path, is_captured: bool = False) -> list[RankAnswer]:
    """Each rank on the card; see `Ranks` for `is_captured`."""
    alone = replace(options, output=None)

    def predict(run: RankRun) -> RankAnswer:
        single = predict_for_card(alone, run.folder, run.is_captured, run.world, run.shelter)
        return RankAnswer(run.world, single)

    return Ranks(alone, folder, predict, is_captured).predict()


def worst(answers: list[RankAnswer]) -> RankAnswer:
    """The rank that decides whether the program fits."""
    return max(answers, key=lambda entry: need(entry.verdict))


def kept_ranks(options: Options, answers: list[RankAnswer]) -> list[RankAnswer]:
    """The same, with recordings where -o wants them."""
    if options.output is None:
        return answers
    return [_kept(options.output, entry) for entry in answers]


def _kept(output: str, entry: RankAnswer) -> RankAnswer:
    run = entry.single.run
    path = rank_path(Path(output), entry.world)
    shutil.copyfile(run.path, path)
    kept = replace(run, path=path, recording=open_quietly(path))
    return replace(entry, single=replace(entry.single, run=kept))


_HEAD = ["rank", "allocated", "reserved", "spare", ""]
_IS_TEXT = [False, False, False, False, True]


def _row(entry: RankAnswer) -> list[str]:
    verdict = entry.verdict
    free = verdict.room.free_bytes
    peak = verdict.prediction.reserved_bytes
    short = verdict.short_bytes
    spare = size(free - peak) if free >= peak else "-"
    what = verdict.answer.value
    if short is not None:
        spare = f"-{size(short)}"
        what = f"{what}: at {verdict.line}" if verdict.line else what
    elif verdict.is_tight:
        what = f"{what}, tight"
    allocated = size(verdict.prediction.allocated_bytes)
    return [str(entry.world.rank), allocated, size(peak), spare, what]


def as_text(options: Options, answers: list[RankAnswer]) -> str:
    """The verdict on the worst rank, a row for each, and the report of the worst."""
    chosen = worst(answers)
    world, verdict = chosen.world, chosen.verdict
    lines = paragraph(f"{verdict.about(options.name)} (rank {world.rank} of {world.size})")
    lines += failures_text(chosen.single.run.prediction.assumptions)
    lines += paragraph(peaks_sentence(verdict), 2)
    lines += paragraph(_basis(options, answers), 2)
    lines += ["", *table([_HEAD, *(_row(entry) for entry in answers)], _IS_TEXT), ""]
    run = chosen.single.run
    report = report_text(options, run)
    lines += [report.rstrip("\n"), "", *assumptions_text(run.prediction.assumptions)]
    lines += files_text(run)
    if options.output is None:
        lines += ["", "Keep a file for each rank: add -o FILE.gmp"]
    return "\n".join(lines)


def _basis(options: Options, answers: list[RankAnswer]) -> str:
    total = answers[0].world.size
    count = len(answers)
    which = f"{count} of {total} ranks" if count < total else f"all {total} ranks"
    which = "one rank" if total == 1 else which
    text = (
        f"Predicted: {which}, each in a process of its own, with --steps {options.steps or 'all'}."
    )
    if count < total:
        text += " The others are taken to be like these; --ranks chooses other ones."
    groups = max(entry.verdict.prediction.communicators for entry in answers)
    if groups:
        text += (
            f" NCCL's buffers for {groups} communicator{'' if groups == 1 else 's'}, outside "
            f"PyTorch's pool, were taken to be at most {size(answers[0].verdict.network_bytes)}."
        )
    return text


def _as_json(options: Options, answers: list[RankAnswer]) -> str:
    chosen = worst(answers)
    single = chosen.single
    rows: list[dict[str, Any]] = [
        {
            "rank": entry.world.rank,
            "local_rank": entry.world.local_rank,
            "file": None if options.output is None else str(entry.single.run.path),
            **head_json(entry.single.card, entry.single.run, entry.verdict),
        }
        for entry in answers
    ]
    return json.dumps(
        {
            **head_json(single.card, single.run, single.verdict),
            "world_size": chosen.world.size,
            "worst_rank": chosen.world.rank,
            "ranks": rows,
            **single.run.recording.report(),
        },
        indent=2,
    )
