"""State of the optimizer is made in the first step."""

import torch
from parts import batch, model, steps, train_step

EXPECTED = {"verdict": "clean"}

net = model()
optimizer = torch.optim.Adam(net.parameters(), amsgrad=True)
for _ in steps(20):
    train_step(optimizer, net(batch()).square().mean())
