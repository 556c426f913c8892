"""A target network is copied every ten steps."""

import torch
from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "clean"}

policy, target = model(), model()
optimizer = sgd(policy)
for step in steps(30):
    states = batch()
    with torch.no_grad():
        goal = target(states)
    train_step(optimizer, (policy(states) - goal).square().mean())
    if step % 10 == 9:
        target.load_state_dict(policy.state_dict())
