"""functools.lru_cache with a bound."""

import functools

import torch
from parts import DEVICE, batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "clean"}


@functools.lru_cache(maxsize=6)
def noise(step):
    return torch.randn(32, 64, device=DEVICE)


net = model()
optimizer = sgd(net)
for step in steps(24):
    train_step(optimizer, net(batch() + noise(step)).square().mean())
