"""A store of embeddings doubles its array whenever it is full, and never drops anything."""

import torch
from parts import DEVICE, batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "leak", "holder": "store", "steps": 64}


class Store:
    def __init__(self):
        self.rows = torch.zeros(64, 64, device=DEVICE)
        self.count = 0

    def add(self, values):
        while self.count + len(values) > len(self.rows):
            self.rows = torch.cat([self.rows, torch.zeros_like(self.rows)])  # leaks
        self.rows[self.count : self.count + len(values)] = values
        self.count += len(values)


net = model()
optimizer = sgd(net)
store = Store()
for _ in steps(64):
    output = net(batch())
    train_step(optimizer, output.square().mean())
    store.add(output.detach())
