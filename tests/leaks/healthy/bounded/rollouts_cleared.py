"""Rollouts are collected, used for an update and cleared."""

import torch
from parts import DEVICE, model, sgd, steps, train_step

EXPECTED = {"verdict": "clean"}

policy = model()
optimizer = sgd(policy)
rollout = []
for step in steps(80):
    state = torch.randn(16, 64, device=DEVICE)
    with torch.no_grad():
        rollout.append((state, policy(state)))
    if step % 8 == 7:
        states = torch.cat([state for state, _ in rollout])
        train_step(optimizer, policy(states).square().mean())
        rollout.clear()
