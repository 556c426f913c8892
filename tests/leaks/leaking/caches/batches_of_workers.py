"""Batches that worker processes loaded are kept."""

import torch
from parts import model, sgd, steps, train_step

EXPECTED = {"verdict": "leak", "holder": "kept", "slow": True, "devices": "cpu"}


class Random(torch.utils.data.Dataset):
    def __len__(self):
        return 32 * len(steps())

    def __getitem__(self, index):
        return torch.randn(64)


net = model()
optimizer = sgd(net)
kept = []
for examples in torch.utils.data.DataLoader(Random(), batch_size=32, num_workers=2):
    train_step(optimizer, net(examples).square().mean())
    kept.append(examples.clone())  # leaks
