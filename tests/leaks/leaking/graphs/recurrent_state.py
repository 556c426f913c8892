"""The state of an RNN is never detached, so its graph reaches back to the first step."""

import torch
from parts import DEVICE, batch, steps

EXPECTED = {"verdict": "leak", "holder": "state"}

cell = torch.nn.GRUCell(64, 64).to(DEVICE)
state = torch.zeros(32, 64, device=DEVICE)
for _ in steps():
    state = cell(batch(), state)  # leaks
