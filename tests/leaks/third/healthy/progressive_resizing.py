"""Images become larger in three stages."""

import torch
from parts import DEVICE, sgd, steps, train_step

EXPECTED = {"verdict": "clean"}

net = torch.nn.Sequential(
    torch.nn.Conv2d(3, 8, 3, padding=1),
    torch.nn.ReLU(),
    torch.nn.AdaptiveAvgPool2d(1),
    torch.nn.Flatten(),
    torch.nn.Linear(8, 10),
).to(DEVICE)
optimizer = sgd(net)
for number in steps(36):
    side = (16, 24, 32)[min(number // 12, 2)]
    images = torch.randn(4, 3, side, side, device=DEVICE)
    train_step(optimizer, net(images).square().mean())
