"""functools.cache keeps the result for every argument."""

import functools

import torch
from parts import DEVICE, batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "leak", "holder": "noise"}


@functools.cache
def noise(seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(32, 64, generator=generator).to(DEVICE, copy=True)  # leaks


net = model()
optimizer = sgd(net)
for step in steps():
    train_step(optimizer, net(batch() + noise(step)).square().mean())
