"""The simulated card of this process, as a recording needs it: see `recorder.simulation`."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from gpumemprof.estimate.cards import Card
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
    ) -> None:
        self._card = card
        self._limit_bytes = limit_bytes
        self._assumed = dict(assumed)
        self._has_begun = False
        self._world = world
        self.device = 0 if world is None else world.local_rank
        self.hidden_files = _hidden_files()

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
        from gpumemprof.estimate.engine.card import Card as EngineCard

        _finish_import()
        card = self._card
        session.begin(
            EngineCard(
                name=card.name,
                capability=card.capability,
                total_bytes=card.total_bytes,
                multiprocessors=card.multiprocessors,
                context_bytes=card.context_bytes,
            ),
            session.Settings(
                assumed_values=self._assumed, limit_bytes=self._limit_bytes, world=self._world
            ),
        )
        self._has_begun = True
        return facts.first_facts(card, self._limit_bytes, self.device)

    def end(self, ended: str) -> dict[str, str]:
        """Torch is as it was before; returns what was found. `ended`: why the program ended."""
        from gpumemprof.estimate.engine import session

        found = {facts.ENDED: ended}
        running = session.active()
        if self._has_begun and running is not None:
            self._has_begun = False
            found.update(facts.engine_facts(running.facts()))
            # Another thread than the program's cannot leave its modes; the process ends anyway.
            with contextlib.suppress(Exception):
                session.end()
        return found


def _hidden_files() -> list[str]:
    """Our own files, and those of torch that are called only because tensors have no memory."""
    files = [str(Path(__file__).resolve().parents[1]) + os.sep]
    found = importlib.util.find_spec("torch")
    if found is not None and found.origin is not None:
        torch = Path(found.origin).parent
        inner = ("_subclasses", "_library", "_decomp", "_refs", "_prims", "_prims_common")
        files += [str(torch / name) + os.sep for name in inner]
        names = ("_ops.py", "_meta_registrations.py", "library.py", "utils/_python_dispatch.py")
        files += [str(torch / name) for name in names]
    return files


def _finish_import() -> None:
    """Torch's own code has run, but the program's import statement may not have returned.

    Until then, other threads that import torch wait for it: autograd's do, while the engine starts
    and waits for them.
    """
    spec = getattr(sys.modules.get("torch"), "__spec__", None)
    if spec is not None:
        spec._initializing = False
