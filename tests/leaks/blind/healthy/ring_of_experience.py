"""A replay buffer of separate tensors fills, then its oldest entries are replaced at random."""

import random

import torch
from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "clean"}

random.seed(0)
net = model()
optimizer = sgd(net)
buffer: list = []
for _ in steps(60):
    with torch.no_grad():
        transition = net(batch(4)).clone()
    if len(buffer) < 24:
        buffer.append(transition)
    else:
        buffer[random.randrange(24)] = transition
    chosen = torch.cat(random.sample(buffer, min(4, len(buffer))))
    train_step(optimizer, net(chosen).square().mean())
