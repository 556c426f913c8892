"""The contexts of a function of autograd are kept, with all that they saved and led to."""

import torch
from parts import batch, model, steps

EXPECTED = {"verdict": "leak", "holder": "contexts", "steps": 40}

contexts = []


class Clip(torch.autograd.Function):
    @staticmethod
    def forward(ctx, value):
        ctx.save_for_backward(value)
        contexts.append(ctx)
        return value.clamp(-1, 1)

    @staticmethod
    def backward(ctx, gradient):
        return gradient


net = model()
for _ in steps(40):
    Clip.apply(net(batch())).sum().item()  # leaks
