"""Keys and values have a place that was allocated first."""

import torch
from parts import DEVICE

EXPECTED = {"verdict": "clean"}

projection = torch.nn.Linear(64, 128).to(DEVICE)
keys = torch.zeros(64, 64, device=DEVICE)
values = torch.zeros(64, 64, device=DEVICE)
with torch.no_grad():
    for _ in range(4):
        for position in range(20):
            key, value = projection(torch.randn(1, 64, device=DEVICE)).chunk(2, dim=-1)
            keys[position], values[position] = key[0], value[0]
            (keys[: position + 1] @ key[0]).softmax(dim=0) @ values[: position + 1]
