"""Three batches are loaded ahead."""

from collections import deque

import torch
from parts import DEVICE, model, sgd, steps, train_step

EXPECTED = {"verdict": "clean"}


def ahead(count):
    waiting = deque()
    for _ in steps(24):
        waiting.append(torch.randn(32, 64, device=DEVICE))
        if len(waiting) > count:
            yield waiting.popleft()
    while waiting:
        yield waiting.popleft()


net = model()
optimizer = sgd(net)
for examples in ahead(3):
    train_step(optimizer, net(examples).square().mean())
