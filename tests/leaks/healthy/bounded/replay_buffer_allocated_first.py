"""A replay buffer that is allocated as a whole."""

import torch
from parts import DEVICE, model, sgd, steps, train_step

EXPECTED = {"verdict": "clean"}

policy = model()
optimizer = sgd(policy)
replay = torch.zeros(256, 64, device=DEVICE)
for step in steps(24):
    replay[step * 8 % 256 : step * 8 % 256 + 8] = torch.randn(8, 64, device=DEVICE)
    train_step(optimizer, policy(replay[: 8 * (step + 1)].clone()).square().mean())
