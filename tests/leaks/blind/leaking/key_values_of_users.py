"""One KV cache for each user, made lazily; users never leave."""

import torch
from parts import DEVICE, model, steps

EXPECTED = {"verdict": "leak", "holder": "caches", "steps": 30}

net = model()
caches: dict = {}


def answer(user, length):
    cache = caches.get(user)
    for _ in range(length):
        with torch.no_grad():
            token = net(torch.randn(1, 64, device=DEVICE))
        cache = token if cache is None else torch.cat([cache, token])  # leaks
    caches[user] = cache


for user in steps(30):
    answer(user, 16)
