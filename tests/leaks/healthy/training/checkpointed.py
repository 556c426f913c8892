"""Activations are computed again in backward."""

import torch
from parts import DEVICE, batch, sgd, steps, train_step
from torch.utils.checkpoint import checkpoint

EXPECTED = {"verdict": "clean"}

layers = torch.nn.ModuleList(torch.nn.Linear(64, 64) for _ in range(4)).to(DEVICE)
optimizer = sgd(layers)
for _ in steps(20):
    value = batch().requires_grad_()
    for layer in layers:
        value = checkpoint(layer, value, use_reentrant=False)
    train_step(optimizer, value.square().mean())
