"""Layers with buffers, power iteration and running statistics."""

import torch
from parts import DEVICE, batch, sgd, steps, train_step

EXPECTED = {"verdict": "clean"}

net = torch.nn.Sequential(
    torch.nn.utils.parametrizations.spectral_norm(torch.nn.Linear(64, 64)),
    torch.nn.BatchNorm1d(64),
    torch.nn.GELU(),
    torch.nn.Linear(64, 64),
).to(DEVICE)
optimizer = sgd(net)
for _ in steps(24):
    train_step(optimizer, net(batch()).square().mean())
