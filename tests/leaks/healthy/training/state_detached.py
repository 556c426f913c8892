"""The state of an RNN is detached after every step."""

import torch
from parts import DEVICE, batch, sgd, steps, train_step

EXPECTED = {"verdict": "clean"}

cell = torch.nn.GRUCell(64, 64).to(DEVICE)
optimizer = sgd(cell)
state = torch.zeros(32, 64, device=DEVICE)
for _ in steps(30):
    state = cell(batch(), state)
    train_step(optimizer, state.square().mean())
    state = state.detach()
