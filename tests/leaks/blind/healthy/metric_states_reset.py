"""A metric with list states that is reset after each epoch of ten steps."""

import torch
from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "clean"}


class Metric:
    def __init__(self):
        self.predictions: list = []

    def update(self, values):
        self.predictions.append(values.detach().argsort(dim=1))

    def compute(self):
        return torch.cat(self.predictions).float().mean().item()

    def reset(self):
        self.predictions = []


net, metric = model(), Metric()
optimizer = sgd(net)
for step in steps(40):
    output = net(batch())
    train_step(optimizer, output.square().mean())
    metric.update(output)
    if step % 10 == 9:
        metric.compute()
        metric.reset()
