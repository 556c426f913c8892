"""One text of many tokens: its cache must grow."""

import torch
from parts import DEVICE

EXPECTED = {"verdict": "clean"}


class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.projection = torch.nn.Linear(64, 192)

    def forward(self, token, cache):
        query, key, value = self.projection(token).chunk(3, dim=-1)
        keys, values = torch.cat([cache[0], key]), torch.cat([cache[1], value])
        return (query @ keys.T).softmax(dim=-1) @ values, (keys, values)


layer = Attention().to(DEVICE)
with torch.no_grad():
    cache = (torch.zeros(0, 64, device=DEVICE), torch.zeros(0, 64, device=DEVICE))
    token = torch.randn(4, 64, device=DEVICE)
    for _ in range(40):
        token, cache = layer(token, cache)
