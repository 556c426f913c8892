"""A new optimizer in every round, and the old ones are kept with their state."""

import torch
from parts import batch, model, steps

EXPECTED = {"verdict": "leak", "holder": "optimizers"}

net = model()
optimizers = []
for _ in steps():
    optimizers.append(torch.optim.Adam(net.parameters()))
    net(batch()).square().mean().backward()
    optimizers[-1].step()  # leaks
    optimizers[-1].zero_grad()
