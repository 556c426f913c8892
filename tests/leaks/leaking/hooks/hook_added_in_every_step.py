"""A new hook in every step; each holds a mask."""

import torch
from parts import DEVICE, batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "leak", "holder": "_forward_hooks"}

net = model()
optimizer = sgd(net)
for _ in steps():
    mask = (torch.rand(32, 64, device=DEVICE) > 0.5).float()  # leaks
    net[0].register_forward_hook(lambda module, inputs, output, mask=mask: output * mask)
    train_step(optimizer, net(batch()).square().mean())
