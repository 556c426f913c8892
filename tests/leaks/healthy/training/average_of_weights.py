"""A moving average of the weights, updated in place."""

import copy

import torch
from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "clean"}

net = model()
average = copy.deepcopy(net)
optimizer = sgd(net)
for _ in steps(20):
    train_step(optimizer, net(batch()).square().mean())
    with torch.no_grad():
        for mean, weight in zip(average.parameters(), net.parameters()):
            mean.lerp_(weight, 0.1)
