"""A module keeps its own activations in an attribute."""

import torch
from parts import DEVICE, batch, sgd, steps, train_step

EXPECTED = {"verdict": "leak", "holder": "features"}


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(64, 64)
        self.last = torch.nn.Linear(64, 1)
        self.features = []

    def forward(self, value):
        hidden = self.first(value).relu()  # leaks
        self.features.append(hidden.detach())
        return self.last(hidden)


net = Net().to(DEVICE)
optimizer = sgd(net)
for _ in steps():
    train_step(optimizer, net(batch()).square().mean())
