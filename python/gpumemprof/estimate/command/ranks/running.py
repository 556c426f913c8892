"""Runs the ranks of a program, as many at once as there are processors."""

from __future__ import annotations

import os
import threading
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Generic, TypeVar

from gpumemprof.estimate.command.options import Options
from gpumemprof.estimate.command.program import UnpredictedError
from gpumemprof.estimate.command.progress import Progress
from gpumemprof.estimate.command.verdict import Answer, Verdict
from gpumemprof.estimate.ranks import letters
from gpumemprof.estimate.ranks.world import World
from gpumemprof.estimate.shelter.shelter import Shelter, open_shelter

__all__ = ["RankRun", "Ranks", "need", "ranks_sentence"]

_SECONDS_BETWEEN = 0.05

Found = TypeVar("Found")


@dataclass(frozen=True)
class RankRun:
    """What one rank is run with."""

    world: World
    folder: Path
    """Of its own, for what the run leaves."""
    is_captured: bool
    """Whether its output is kept."""
    shelter: Shelter
    """That of all ranks: each sees what the others write."""


class Ranks(Generic[Found]):
    """The ranks that are predicted; one that waits for a letter takes no processor."""

    def __init__(
        self,
        options: Options,
        folder: Path,
        predict: Callable[[RankRun], Found],
        is_captured: bool = False,
    ) -> None:
        """Prepare.

        `is_captured` keeps that of the first rank too, and shows no progress: the ranks are run
        for one of several answers.
        """
        self._options = options
        self._folder = folder
        self._predict = predict
        self._is_captured = is_captured
        self._mailbox = folder / "mailbox"
        self._found: dict[int, Found] = {}
        self._problems: dict[int, Exception] = {}

    def predict(self) -> list[Found]:
        """What was found for each rank.

        Raises:
            UnpredictedError: a rank could not be predicted.
        """
        ranks = self._options.ranks
        letters.prepare(self._mailbox, ranks)
        with closing(open_shelter(self._options.real_folders)) as shelter:
            self._run_all(shelter)
        if self._problems:
            raise self._first_problem()
        return [self._found[rank] for rank in ranks]

    def _run_all(self, shelter: Shelter) -> None:
        ranks = self._options.ranks
        at_once = max(2, os.cpu_count() or 1)
        left = list(ranks)
        running: list[threading.Thread] = []
        with Progress(len(ranks), is_shown=not self._is_captured) as progress:
            while left or running:
                running = [each for each in running if each.is_alive()]
                busy = len(running) - letters.waiting_ranks(self._mailbox)
                if left and busy < at_once and not self._problems:
                    rank = left.pop(0)
                    thread = threading.Thread(target=self._run, args=(rank, shelter), daemon=True)
                    thread.start()
                    running.append(thread)
                    progress.show(min(len(self._found), len(ranks) - 1), "one run for each rank")
                elif not running:
                    break
                else:
                    time.sleep(_SECONDS_BETWEEN)

    def _run(self, rank: int, shelter: Shelter) -> None:
        options = self._options
        place = self._folder / str(rank)
        place.mkdir()
        world = World(rank, options.per_node or 1, options.nodes, str(self._mailbox))
        is_captured = self._is_captured or rank != options.ranks[0]
        try:
            run = RankRun(world, place, is_captured, shelter)
            self._found[rank] = self._predict(run)
        except Exception as error:
            self._problems[rank] = error
        finally:
            letters.mark_ended(self._mailbox, rank)

    def _first_problem(self) -> Exception:
        """A rank that fails because of another one fails later."""
        rank, problem = next(iter(self._problems.items()))
        if not isinstance(problem, UnpredictedError):
            return problem
        named = UnpredictedError(f"rank {rank}: {problem.message}", problem.code, "", problem.hint)
        if self._is_captured:  # Whoever makes several answers decides what is shown.
            named.output = problem.output
        else:
            problem.show_output()
        return named


_ANSWERS = (Answer.FITS, Answer.MAY_NOT_FIT, Answer.DOES_NOT_FIT)


def need(verdict: Verdict) -> tuple[int, int]:
    """The rank for which this is largest decides whether the program fits."""
    needed = max(verdict.needed_bytes or 0, verdict.prediction.reserved_bytes)
    return _ANSWERS.index(verdict.answer), needed


def ranks_sentence(options: Options) -> str:
    """What a row of a table means if the program has several ranks; empty if it has one."""
    if options.per_node is None:
        return ""
    total, count = options.per_node * options.nodes, len(options.ranks)
    which = f"all {total}" if count == total else f"{count} of {total}"
    return f"Each row is that of the rank that needs most; {which} ranks were predicted."
