"""Requests wait until there are five, and are answered together."""

import torch
from parts import DEVICE, model

EXPECTED = {"verdict": "clean"}

net = model().eval()
waiting = []
with torch.no_grad():
    for _ in range(40):
        waiting.append(torch.randn(8, 64, device=DEVICE))
        if len(waiting) == 5:
            answers = net(torch.cat(waiting)).split(8)
            waiting.clear()
