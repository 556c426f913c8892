"""A replay buffer that is full after a while, and then overwritten at random."""

import random

import torch
from parts import DEVICE, model, sgd, steps, train_step

EXPECTED = {"verdict": "clean"}

draw = random.Random(1)
policy = model()
optimizer = sgd(policy)
replay = []
for _ in steps(60):
    state = torch.randn(8, 64, device=DEVICE)
    with torch.no_grad():
        transition = (state, policy(state))
    if len(replay) < 30:
        replay.append(transition)
    else:
        replay[draw.randrange(30)] = transition
    states = torch.cat([draw.choice(replay)[0] for _ in range(4)])
    train_step(optimizer, policy(states).square().mean())
