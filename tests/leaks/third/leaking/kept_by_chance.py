"""A server keeps the requests it finds remarkable: about one in four."""

import random

import torch
from parts import batch, model, steps

EXPECTED = {"verdict": "leak", "holder": "remarkable", "steps": 80}

draws = random.Random(7)
net = model()
remarkable = []


@torch.no_grad()
def answer(request):
    result = net(request)  # leaks
    if draws.random() < 0.25:
        remarkable.append(result)
    return result.argmax(dim=1)


for _ in steps(80):
    answer(batch(rows=draws.randrange(8, 64)))
