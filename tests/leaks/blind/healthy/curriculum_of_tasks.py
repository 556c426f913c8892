"""Three tasks after each other, each with its own optimizer and longer inputs."""

import torch
from parts import DEVICE, model, steps, train_step

EXPECTED = {"verdict": "clean"}

net = model()
for task in range(3):
    optimizer = torch.optim.Adam(net.parameters())
    for _ in steps(10):
        examples = torch.randn(16 << task, 64, device=DEVICE)
        train_step(optimizer, net(examples).square().mean())
