"""A metric with list states, as libraries have them; compute() is called, reset() is not."""

import torch
from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "leak", "holder": "predictions"}


class Metric(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.predictions: list = []

    def forward(self, values):
        self.predictions.append(values.detach().argsort(dim=1))  # leaks
        return self.predictions[-1].float().mean()

    def compute(self):
        return torch.cat(self.predictions).float().mean().item()


net, metric = model(), Metric()
optimizer = sgd(net)
for step in steps(24):
    output = net(batch())
    train_step(optimizer, output.square().mean())
    metric(output)
    if step % 6 == 5:
        metric.compute()
