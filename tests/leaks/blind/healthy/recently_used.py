"""An LRU cache of encoded prompts, larger than one epoch's working set at first."""

from collections import OrderedDict

import torch
from parts import DEVICE, model, steps

EXPECTED = {"verdict": "clean"}

net = model()
cache: OrderedDict = OrderedDict()


def encoded(prompt):
    if prompt in cache:
        cache.move_to_end(prompt)
        return cache[prompt]
    with torch.no_grad():
        cache[prompt] = net(torch.full((8, 64), float(prompt), device=DEVICE))
    if len(cache) > 12:
        cache.popitem(last=False)
    return cache[prompt]


for step in steps(80):
    encoded((step * 7) % 40).sum().item()
