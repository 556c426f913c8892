"""Conversations of several turns; each ends and is dropped."""

import torch
from parts import DEVICE, model

EXPECTED = {"verdict": "clean"}

net = model().eval()
with torch.no_grad():
    for number in range(8):
        history = []
        for _ in range(3 + number % 4):
            history.append(torch.randn(8, 64, device=DEVICE))
            net(torch.cat(history))
