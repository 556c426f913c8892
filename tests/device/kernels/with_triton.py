"""Trains with Triton kernels of its own, and prints torch's peaks as JSON.

Usage: with_triton.py plain|tuned|restored [--width N]

plain: a kernel that is launched as it is; tuned: one that Triton times in several configurations
first, with a buffer of its own; restored: the same, with a copy of what the kernel overwrites. To
compare, run `gpumemprof estimate --gpu h200` with the same words.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import torch
import triton
import triton.language as tl
from torch import nn

CONFIGS = [triton.Config({"BLOCK": 256}), triton.Config({"BLOCK": 1024}, num_warps=8)]


def scale(x, y, factor, count, BLOCK: tl.constexpr):  # noqa: N803
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = places < count
    values = tl.load(x + places, mask=inside)
    tl.store(y + places, values * factor, mask=inside)


plain = triton.jit(scale)
tuned = triton.autotune(CONFIGS, key=["count"])(triton.jit(scale))
restored = triton.autotune(CONFIGS, key=["count"], restore_value=["y"])(triton.jit(scale))
KERNELS = {"plain": plain, "tuned": tuned, "restored": restored}


def launch(kernel: Any, x: torch.Tensor, factor: float) -> torch.Tensor:
    y = torch.empty_like(x)
    count = x.numel()
    given = {"BLOCK": 1024} if kernel is plain else {}
    kernel[lambda meta: (triton.cdiv(count, meta["BLOCK"]),)](x, y, factor, count, **given)
    return y


class Scale(torch.autograd.Function):
    """Scales by a half, and its gradients too."""

    @staticmethod
    def forward(context: Any, x: torch.Tensor, kernel: Any) -> torch.Tensor:
        context.kernel = kernel
        return launch(kernel, x.contiguous(), 0.5)

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> Any:
        return launch(context.kernel, gradient.contiguous(), 0.5), None


class Layer(nn.Module):
    """A linear layer whose outputs are scaled."""

    def __init__(self, width: int, kernel: Any) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.kernel = kernel

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return Scale.apply(self.linear(x).relu(), self.kernel)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kernel", choices=KERNELS)
    parser.add_argument("--width", type=int, default=2048)
    options = parser.parse_args()
    kernel = KERNELS[options.kernel]
    model = nn.Sequential(*(Layer(options.width, kernel) for _ in range(6))).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        batch = torch.randn(4096, options.width, device="cuda")
        model(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    peaks = [torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()]
    print(json.dumps({"kernel": options.kernel, "peaks": peaks}))


if __name__ == "__main__":
    main()
