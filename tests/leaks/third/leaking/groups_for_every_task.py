"""Every task adds an embedding of its own to the optimizer, and none is ever removed."""

import torch
from parts import DEVICE, batch, model, steps

EXPECTED = {"verdict": "leak", "holder": "optimizer", "steps": 24}

net = model()
optimizer = torch.optim.Adam(net.parameters())
for _ in steps(24):
    task = torch.nn.Parameter(torch.zeros(64, 64, device=DEVICE))  # leaks
    optimizer.add_param_group({"params": [task]})
    output = net(batch() @ task)
    output.square().mean().backward()  # leaks
    optimizer.step()  # leaks
    optimizer.zero_grad()
