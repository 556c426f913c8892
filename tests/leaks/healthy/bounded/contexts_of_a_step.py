"""Contexts of a function of autograd, dropped after each step."""

import torch
from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "clean"}

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
optimizer = sgd(net)
for _ in steps(30):
    train_step(optimizer, Clip.apply(net(batch())).square().mean())
    contexts.clear()
