"""A stream without modules: a window of the last sixteen chunks."""

from collections import deque

import torch
from parts import DEVICE, steps

EXPECTED = {"verdict": "clean"}

window = deque(maxlen=16)
for _ in steps(60):
    window.append(torch.randn(512, device=DEVICE).abs())
    torch.stack(list(window)).mean(dim=0)
