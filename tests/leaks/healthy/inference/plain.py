"""Plain inference."""

import torch
from parts import batch, model, steps

EXPECTED = {"verdict": "clean"}

net = model().eval()
with torch.no_grad():
    for _ in steps(24):
        net(batch()).argmax(dim=1)
