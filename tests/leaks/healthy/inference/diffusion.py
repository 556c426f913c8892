"""A sample is refined in many steps."""

import torch
from parts import DEVICE, model

EXPECTED = {"verdict": "clean"}

net = model().eval()
with torch.no_grad():
    for _ in range(3):
        sample = torch.randn(32, 64, device=DEVICE)
        for _ in range(12):
            sample = sample - 0.1 * net(sample)
