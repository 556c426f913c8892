"""Three texts are generated; the cache of keys and values grows within each and is dropped."""

import torch
from parts import DEVICE

EXPECTED = {"verdict": "clean"}

projection = torch.nn.Linear(64, 192).to(DEVICE)


def generate(count):
    keys = values = torch.zeros(0, 64, device=DEVICE)
    token = torch.randn(1, 64, device=DEVICE)
    for _ in range(count):
        query, key, value = projection(token).chunk(3, dim=-1)
        keys, values = torch.cat([keys, key]), torch.cat([values, value])
        token = (query @ keys.T).softmax(dim=-1) @ values
    return token


with torch.no_grad():
    for _ in range(8):
        generate(24)
