"""A dataset of a stream caches every sample."""

import torch
from parts import DEVICE, model, sgd, steps, train_step

EXPECTED = {"verdict": "leak", "holder": "cache"}


class Stream(torch.utils.data.IterableDataset):
    def __init__(self):
        self.cache = []

    def __iter__(self):
        for _ in steps():
            sample = torch.randn(32, 64)  # leaks
            self.cache.append(sample)
            yield sample


stream = Stream()
net = model()
optimizer = sgd(net)
for examples in torch.utils.data.DataLoader(stream, batch_size=None):
    train_step(optimizer, net(examples.to(DEVICE)).square().mean())
