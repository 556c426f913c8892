"""Where programs act on the values of gradients."""

from __future__ import annotations

from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.engine.reading.answers import Answers
from gpumemprof.estimate.patches.gradients import checking, lbfgs, scaling
from gpumemprof.estimate.patches.patcher import Patcher

__all__ = ["install"]


def install(patcher: Patcher, device: Device, answers: Answers) -> None:
    scaling.install(patcher, answers, device)
    checking.install(patcher, device)
    lbfgs.install(patcher, device)
