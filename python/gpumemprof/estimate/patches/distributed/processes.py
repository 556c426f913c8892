"""torch.multiprocessing.spawn: this process is one of those it would start."""

from __future__ import annotations

from typing import Any, Callable

import torch.multiprocessing as processes

from gpumemprof.estimate.engine.failures import CannotEstimate
from gpumemprof.estimate.patches.patcher import Patcher
from gpumemprof.estimate.ranks.world import World

__all__ = ["install"]


def install(patcher: Patcher, world: World | None) -> None:
    def spawn(
        fn: Callable[..., Any],
        args: tuple[Any, ...] = (),
        nprocs: int = 1,
        join: bool = True,
        daemon: bool = False,
        start_method: str = "spawn",
    ) -> Any:
        expected = 1 if world is None else world.per_node
        if nprocs != expected:
            raise CannotEstimate(
                f"the program starts {nprocs} processes with torch.multiprocessing.spawn, and "
                f"{expected} {'is' if expected == 1 else 'are'} predicted",
                f"use gpumemprof estimate --nproc {nprocs} ...",
            )
        fn(0 if world is None else world.local_rank, *args)
        return None if join else _Ended()

    patcher.set(processes, "spawn", spawn)


class _Ended:
    """Processes that have ended."""

    processes: tuple[Any, ...] = ()

    def join(self, *_: Any, **__: Any) -> bool:
        return True

    def pids(self) -> list[int]:
        return []
