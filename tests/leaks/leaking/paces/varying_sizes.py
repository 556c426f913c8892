"""What leaks has a different size in every step."""

import torch
from parts import DEVICE, model, sgd, steps, train_step

EXPECTED = {"verdict": "leak", "holder": "kept"}

net = model()
optimizer = sgd(net)
kept = []
for step in steps():
    output = net(torch.randn(16 + step * 13 % 37, 64, device=DEVICE))
    train_step(optimizer, output.square().mean())
    kept.append(output.detach().clone())  # leaks
