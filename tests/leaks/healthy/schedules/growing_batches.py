"""The batch size doubles every six steps."""

import torch
from parts import DEVICE, model, sgd, steps, train_step

EXPECTED = {"verdict": "clean"}

net = model()
optimizer = sgd(net)
for step in steps(30):
    examples = torch.randn(8 << step // 6, 64, device=DEVICE)
    train_step(optimizer, net(examples).square().mean())
