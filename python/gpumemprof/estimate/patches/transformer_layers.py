"""nn.TransformerEncoder in evaluation: its fused kernels need nested tensors."""

from __future__ import annotations

import torch

from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.patches.patcher import Patcher

__all__ = ["install"]


def install(patcher: Patcher, device: Device) -> None:
    mha = getattr(torch.backends, "mha", None)
    if mha is None:
        return

    def is_enabled() -> bool:
        if not torch.is_grad_enabled():
            device.note("kernel", "fused transformer layers were estimated as their single steps")
        return False

    patcher.set(mha, "get_fastpath_enabled", is_enabled)
