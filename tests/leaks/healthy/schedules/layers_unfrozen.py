"""One more layer is trained every four steps; each gets gradients and state."""

import torch
from parts import DEVICE, batch, steps, train_step

EXPECTED = {"verdict": "clean"}

net = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(6))).to(DEVICE)
net.requires_grad_(False)
net[5].requires_grad_(True)
optimizer = torch.optim.Adam(net.parameters())
for step in steps(26):
    if step % 4 == 3 and step < 20:
        net[4 - step // 4].requires_grad_(True)
    train_step(optimizer, net(batch()).square().mean())
