"""itertools.tee keeps what only one of its iterators has read."""

import itertools

import torch
from parts import DEVICE, model, sgd, steps, train_step

EXPECTED = {"verdict": "leak", "holder": "spare"}


def batches():
    for _ in steps():
        yield torch.randn(32, 64, device=DEVICE)  # leaks


net = model()
optimizer = sgd(net)
used, spare = itertools.tee(batches())
for examples in used:
    train_step(optimizer, net(examples).square().mean())
