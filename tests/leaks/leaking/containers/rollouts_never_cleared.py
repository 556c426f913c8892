"""Reinforcement learning: transitions are never dropped after the update."""

import torch
from parts import DEVICE, model, sgd, steps, train_step

EXPECTED = {"verdict": "leak", "holder": "transitions"}

policy = model()
optimizer = sgd(policy)
transitions = []
for _ in steps():
    for _ in range(3):
        state = torch.randn(16, 64, device=DEVICE)  # leaks
        with torch.no_grad():
            action = policy(state)  # leaks
        transitions.append((state, action))
    states = torch.cat([state for state, _ in transitions[-3:]])
    train_step(optimizer, policy(states).square().mean())
