"""Evaluation after every fifth step; its outputs are dropped."""

import torch
from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "clean"}

net = model()
optimizer = sgd(net)
for step in steps(30):
    train_step(optimizer, net(batch()).square().mean())
    if step % 5 == 4:
        with torch.no_grad():
            scores = [net(batch()) for _ in range(4)]
            torch.cat(scores).mean().item()
        del scores
