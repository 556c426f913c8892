"""The agent learns, so episodes grow longer."""

import torch
from parts import DEVICE, model, sgd, steps, train_step

EXPECTED = {"verdict": "clean"}

policy = model()
optimizer = sgd(policy)
for step in steps(20):
    episode = [torch.randn(4, 64, device=DEVICE) for _ in range(2 + step)]
    train_step(optimizer, policy(torch.cat(episode)).square().mean())
