"""A leak in every tenth step: an image for the log."""

import torch
from parts import DEVICE, batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "leak", "holder": "images", "steps": 80}

net = model()
optimizer = sgd(net)
images = []
for step in steps(80):
    train_step(optimizer, net(batch()).square().mean())
    if step % 10 == 9:
        images.append(torch.rand(3, 64, 64, device=DEVICE))  # leaks
