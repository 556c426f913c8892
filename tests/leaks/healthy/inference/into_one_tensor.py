"""Features are written into a tensor that was allocated first."""

import torch
from parts import DEVICE, batch, model

EXPECTED = {"verdict": "clean"}

net = model().eval()
features = torch.empty(30 * 32, 64, device=DEVICE)
with torch.inference_mode():
    for index in range(30):
        features[32 * index : 32 * (index + 1)] = net(batch())
