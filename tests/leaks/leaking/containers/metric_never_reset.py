"""A metric object collects predictions and is never reset."""

import torch
from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "leak", "holder": "accuracy.predictions"}


class Accuracy:
    def __init__(self):
        self.predictions = []

    def update(self, output):
        self.predictions.append(torch.softmax(output.detach(), dim=1))  # leaks

    def compute(self):
        return torch.cat(self.predictions).mean().item()


net = model()
optimizer = sgd(net)
accuracy = Accuracy()
for _ in steps():
    output = net(batch())
    train_step(optimizer, output.square().mean())
    accuracy.update(output)
    accuracy.compute()
