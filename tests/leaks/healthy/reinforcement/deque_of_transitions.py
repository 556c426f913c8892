"""Transitions in a deque that is full after sixteen steps."""

from collections import deque

import torch
from parts import DEVICE, model, sgd, steps, train_step

EXPECTED = {"verdict": "clean"}

policy = model()
optimizer = sgd(policy)
transitions = deque(maxlen=16)
for _ in steps(50):
    state = torch.randn(8, 64, device=DEVICE)
    with torch.no_grad():
        transitions.append((state, policy(state)))
    states = torch.cat([state for state, _ in transitions])
    train_step(optimizer, policy(states).square().mean())
