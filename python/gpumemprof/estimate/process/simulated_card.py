"""The simulated card of this process, as a recording needs it: see `recorder.simulation`."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping

from gpumemprof.estimate.cards import Card
from gpumemprof.estimate.hidden_files import hidden_files
from gpumemprof.estimate.process import facts
from gpumemprof.estimate.ranks.world import World

__all__ = ["SimulatedCard"]


class SimulatedCard:
    """One card, on which the program runs from `begin` to `end`."""

    def __init__(
        self,
        card: Card,
        limit_bytes: int,
        assumed: Mapping[str, float],
        world: World | None = None,
        has_scratch: bool = False,
    ) -> None:
        self._card = card
        self._limit_bytes = limit_bytes
        self._assumed = dict(assumed)
        self._has_begun = False
        self._world = world
        self._has_scratch = has_scratch
        self.device = 0 if world is None else world.local_rank
        self.hidden_files = list(hidden_files())

    def settings(self) -> str:
        """As in PYTORCH_CUDA_ALLOC_CONF."""
        names = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
        return next((os.environ[name] for name in names if os.environ.get(name)), "")

    def begin(self) -> dict[str, str]:
        """From now on torch uses the card; returns the facts that are known by then.

        Raises:
            Error: this torch cannot be used.
        """
        from gpumemprof.estimate.engine import session

        _finish_import()
        session.begin(
            self._card,
            session.Settings(
                assumed_values=self._assumed,
                limit_bytes=self._limit_bytes,
                world=self._world,
                prints_sentences=False,
                has_scratch=self._has_scratch,
            ),
        )
        self._has_begun = True
        return facts.first_facts(self._card, self._limit_bytes, self.device)

    def failure(self) -> str:
        """Why the program could not be predicted, in one sentence; empty if it could."""
        if not self._has_begun:
            return ""
        from gpumemprof.estimate.engine import session

        running = session.active()
        return "" if running is None else running.failure

    def closing(self) -> None:
        """The main thread may compute again: the hooks ask torch for addresses."""
        if self._has_begun:
            from gpumemprof.estimate.engine import session

            session.end_at_next_operation(None)

    def end(self, ended: str) -> dict[str, str]:
        """Torch is as it was before; returns what was found. `ended`: why the program ended."""
        found = {facts.ENDED: ended}
        if not self._has_begun:
            return found
        from gpumemprof.estimate.engine import session

        self._has_begun = False
        running = session.active()
        if running is not None:
            found.update(facts.engine_facts(running.facts()))
            # Another thread than the program's cannot leave its modes; the process ends anyway.
            with contextlib.suppress(Exception):
                session.end()
        return found


def _finish_import() -> None:
    """Torch's own code has run, but the program's import statement may not have returned.

    Until then, other threads that import torch wait for it: autograd's do, while the engine starts
    and waits for them.
    """
    spec = getattr(sys.modules.get("torch"), "__spec__", None)
    if spec is not None:
        spec._initializing = False
