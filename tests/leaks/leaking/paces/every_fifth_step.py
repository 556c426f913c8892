"""A leak in every fifth step."""

import torch
from parts import DEVICE, batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "leak", "holder": "kept", "steps": 30}

net = model()
optimizer = sgd(net)
kept = []
for step in steps(30):
    train_step(optimizer, net(batch()).square().mean())
    if step % 5 == 0:
        kept.append(torch.randn(64, 64, device=DEVICE))  # leaks
