"""Requests of many sizes."""

import random

import torch
from parts import DEVICE, model

EXPECTED = {"verdict": "clean"}

sizes = random.Random(2)
net = model().eval()
with torch.no_grad():
    for _ in range(40):
        answer = net(torch.randn(sizes.randint(1, 96), 64, device=DEVICE))
