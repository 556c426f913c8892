"""How nn.DataParallel copies tensors to its cards: functions that CPU builds of torch lack."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from gpumemprof.estimate.patches.patcher import Patcher

__all__ = ["install"]


def _on(tensor: torch.Tensor, index: int) -> torch.Tensor:
    return tensor.to(torch.device("cuda", index) if index >= 0 else torch.device("cpu"))


def _broadcast(tensor: torch.Tensor, cards: Sequence[int]) -> list[torch.Tensor]:
    return [_on(tensor, card) for card in cards]


def _broadcast_coalesced(
    tensors: Sequence[torch.Tensor], cards: Sequence[int], buffer_size: int
) -> list[list[torch.Tensor]]:
    return [[_on(tensor, card) for tensor in tensors] for card in cards]


def _scatter(
    tensor: torch.Tensor,
    cards: Sequence[int],
    chunk_sizes: Sequence[int] | None = None,
    dim: int = 0,
    streams: Any = None,
) -> list[torch.Tensor]:
    parts = tensor.chunk(len(cards), dim)
    if chunk_sizes is not None:
        parts = tensor.split(list(chunk_sizes), dim)
    return [_on(part, card) for part, card in zip(parts, cards)]


def _gather(
    tensors: Sequence[torch.Tensor], dim: int, destination: int | None = None
) -> torch.Tensor:
    card = tensors[0].get_device() if destination is None else destination
    return torch.cat([_on(tensor, card) for tensor in tensors], dim)


def install(patcher: Patcher) -> None:
    for function in (_broadcast, _broadcast_coalesced, _scatter, _gather):
        if not hasattr(torch._C, function.__name__):
            patcher.set(torch._C, function.__name__, function)
