"""Evaluation after every fifth step; the last outputs are kept until the next."""

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
