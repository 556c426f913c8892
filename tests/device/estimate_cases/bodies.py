"""What the cases of modules share."""

from __future__ import annotations

from typing import Any, Callable

import torch

Case = tuple[str, Callable[[], Callable[[], Any]]]
Body = Callable[[], Any]


def backward(out: torch.Tensor) -> torch.Tensor:
    if out.requires_grad:
        out.backward(torch.ones_like(out))
    return out


def grads(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return tuple(t.detach().requires_grad_() for t in tensors)
