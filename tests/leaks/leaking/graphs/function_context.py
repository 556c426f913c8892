"""A custom function of autograd puts its context into a list."""

import torch
from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "leak", "holder": "contexts"}

contexts = []


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, value):
        ctx.scaled = value * 2  # leaks
        contexts.append(ctx)
        return ctx.scaled.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


net = model()
optimizer = sgd(net)
for _ in steps():
    train_step(optimizer, Scale.apply(net(batch())).square().mean())
