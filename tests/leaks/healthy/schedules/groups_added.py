"""Layers are added to the optimizer as they are unfrozen; gradients stay allocated."""

import torch
from parts import DEVICE, batch, steps

EXPECTED = {"verdict": "clean"}

net = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(5))).to(DEVICE)
net.requires_grad_(False)
net[4].requires_grad_(True)
optimizer = torch.optim.AdamW(net[4].parameters())
for step in steps(28):
    if step % 5 == 4 and step < 20:
        layer = net[3 - step // 5]
        layer.requires_grad_(True)
        optimizer.add_param_group({"params": list(layer.parameters())})
    net(batch()).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=False)
