"""What must be different in torch and other libraries while a program is estimated."""

from __future__ import annotations

from typing import Any, Callable

from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.engine.reading.answers import Answers
from gpumemprof.estimate.patches import (
    compiler,
    cuda,
    data_loading,
    distributed,
    exporting,
    fake_tensors,
    gradients,
    kernels,
    lazy_parameters,
    libraries,
    linear_layers,
    losses,
    native,
    processes,
    recurrent,
    saving,
    scripting,
    threads,
    transformer,
)
from gpumemprof.estimate.patches.patcher import Patcher
from gpumemprof.estimate.ranks.collectives import Collectives
from gpumemprof.estimate.ranks.world import World

__all__ = ["install_all"]


def install_all(
    patcher: Patcher,
    device: Device,
    answers: Answers,
    modes: Callable[[], Any],
    collectives: Collectives,
    world: World | None = None,
    has_scratch: bool = False,
) -> None:
    """Replace it all.

    `modes` makes a context in which operations are estimated; `world` says which rank this is;
    `has_scratch`: files that the program writes are not the user's.
    """
    native.install(patcher, device)
    kernels.install(patcher, device)  # before the build looks like one with CUDA
    cuda.install(patcher, device)
    fake_tensors.install(patcher, device, answers)
    gradients.install(patcher, device, answers)
    recurrent.install(patcher)
    lazy_parameters.install(patcher)
    linear_layers.install(patcher, device)
    losses.install(patcher)
    transformer.install(patcher, device)
    compiler.install(patcher, device, modes)
    scripting.install(patcher, device)
    exporting.install(patcher, device)
    data_loading.install(patcher, modes)
    saver = saving.install(patcher, device, modes, has_scratch)
    libraries.install(patcher, saver)
    threads.install(patcher, modes)
    processes.install(patcher, device)
    distributed.install(patcher, device, answers, collectives, world)
