"""``--nproc``: each rank of a program that torchrun would start, and the verdict on the worst."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gpumemprof.estimate.command.answer import assumptions_text, head_json, peaks_sentence
from gpumemprof.estimate.command.options import Options
from gpumemprof.estimate.command.page import page_width, paragraph
from gpumemprof.estimate.command.program import UnpredictedError
from gpumemprof.estimate.command.progress import Progress
from gpumemprof.estimate.command.single import Single, exit_code, predict_for_card
from gpumemprof.estimate.command.table import table
from gpumemprof.estimate.command.units import size
from gpumemprof.estimate.command.verdict import Answer, Verdict
from gpumemprof.estimate.ranks import letters
from gpumemprof.estimate.ranks.world import World, rank_path
from gpumemprof.verify.program import open_quietly

__all__ = ["RankAnswer", "answer", "as_text", "worst"]

_SECONDS_BETWEEN = 0.05


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
    answers = _Ranks(options, folder).predict()
    if options.output is not None:
        answers = [_kept(options.output, entry) for entry in answers]
    print(_as_json(options, answers) if options.json else as_text(options, answers))
    return exit_code(worst(answers).verdict)


class _Ranks:
    """Runs the ranks, as many at once as there are processors; a rank that waits does not count."""

    def __init__(self, options: Options, folder: Path) -> None:
        self._options = replace(options, output=None)
        self._folder = folder
        self._mailbox = folder / "mailbox"
        self._found: dict[int, RankAnswer] = {}
        self._problems: dict[int, Exception] = {}

    def predict(self) -> list[RankAnswer]:
        ranks = self._options.ranks
        letters.prepare(self._mailbox, ranks)
        at_once = max(2, os.cpu_count() or 1)
        left = list(ranks)
        running: list[threading.Thread] = []
        with Progress(len(ranks)) as progress:
            while left or running:
                running = [each for each in running if each.is_alive()]
                busy = len(running) - letters.waiting_ranks(self._mailbox)
                if left and busy < at_once and not self._problems:
                    thread = threading.Thread(target=self._run, args=(left.pop(0),), daemon=True)
                    thread.start()
                    running.append(thread)
                    progress.show(min(len(self._found), len(ranks) - 1), "one run for each rank")
                elif not running:
                    break
                else:
                    time.sleep(_SECONDS_BETWEEN)
        if self._problems:
            raise self._first_problem()
        return [self._found[rank] for rank in ranks]

    def _run(self, rank: int) -> None:
        options = self._options
        place = self._folder / str(rank)
        place.mkdir()
        world = World(rank, options.per_node or 1, options.nodes, str(self._mailbox))
        is_first = rank == options.ranks[0]
        try:
            single = predict_for_card(options, place, is_captured=not is_first, world=world)
            self._found[rank] = RankAnswer(world, single)
        except Exception as error:
            self._problems[rank] = error
        finally:
            letters.mark_ended(self._mailbox, rank)

    def _first_problem(self) -> Exception:
        """A rank that fails because of another one fails later."""
        rank, problem = next(iter(self._problems.items()))
        if isinstance(problem, UnpredictedError):
            problem.show_output()
            return UnpredictedError(
                f"rank {rank}: {problem.message}", problem.code, "", problem.hint
            )
        return problem


_ANSWERS = (Answer.FITS, Answer.MAY_NOT_FIT, Answer.DOES_NOT_FIT)


def worst(answers: list[RankAnswer]) -> RankAnswer:
    """The rank that decides whether the program fits."""

    def need(entry: RankAnswer) -> tuple[int, int]:
        verdict = entry.verdict
        return _ANSWERS.index(verdict.answer), _needed(verdict)

    return max(answers, key=need)


def _needed(verdict: Verdict) -> int:
    return max(verdict.needed_bytes or 0, verdict.prediction.reserved_bytes)


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
    lines = paragraph(f"{options.name} {verdict.sentence} (rank {world.rank} of {world.size})")
    lines += paragraph(peaks_sentence(verdict), 2)
    lines += paragraph(_basis(options, answers), 2)
    lines += ["", *table([_HEAD, *(_row(entry) for entry in answers)], _IS_TEXT), ""]
    run = chosen.single.run
    report = run.recording.to_text(width=page_width())
    if options.output is None:  # The file is gone by then.
        report = report.partition("\nNext: ")[0]
    lines += [report.rstrip("\n"), "", *assumptions_text(run.prediction.assumptions)]
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
