"""Three optimizers are made one after the other; the old ones are dropped."""

import torch
from parts import batch, model, steps, train_step

EXPECTED = {"verdict": "clean"}

net = model()
for step in steps(30):
    if step % 10 == 0:
        optimizer = torch.optim.Adam(net.parameters())
    train_step(optimizer, net(batch()).square().mean())
