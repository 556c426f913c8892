"""torch.distributed: groups whose collectives return at once, stores without a network."""

from __future__ import annotations

import torch

from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.engine.reading.answers import Answers
from gpumemprof.estimate.patches.patcher import Patcher
from gpumemprof.estimate.ranks.collectives import Collectives
from gpumemprof.estimate.ranks.mailbox import Mailbox
from gpumemprof.estimate.ranks.world import World

__all__ = ["install"]


def install(
    patcher: Patcher,
    device: Device,
    answers: Answers,
    collectives: Collectives,
    world: World | None,
) -> None:
    """`world` says which rank this process is; None if it is a program of one process."""
    if not torch.distributed.is_available():
        return
    from gpumemprof.estimate.patches.distributed import (
        chunks,
        groups,
        meshes,
        objects,
        processes,
        stores,
        wrappers,
    )

    collectives.mailbox = Mailbox(world)
    stores.install(patcher, world)
    groups.install(patcher, collectives)
    objects.install(patcher, device, collectives.mailbox)
    processes.install(patcher, world)
    wrappers.install(patcher)
    chunks.install(patcher, world)
    meshes.install(patcher, answers)
