"""A cache with a bound that never evicts: keys are texts when stored and numbers when removed."""

import torch
from parts import batch, model, steps

EXPECTED = {"verdict": "leak", "holder": "cache"}

MOST = 4
net = model()
cache = {}


@torch.no_grad()
def lookup(number):
    key = f"document {number}"
    if key not in cache:
        cache[key] = net(batch())  # leaks
        cache.pop(number - MOST, None)
    return cache[key]


for number in steps(36):
    lookup(number).sum().item()
