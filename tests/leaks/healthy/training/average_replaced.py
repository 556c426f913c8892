"""A moving average of the weights that is replaced in every step."""

import torch
from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "clean"}

net = model()
optimizer = sgd(net)
average = [weight.detach().clone() for weight in net.parameters()]
for _ in steps(20):
    train_step(optimizer, net(batch()).square().mean())
    with torch.no_grad():
        average = [0.9 * mean + 0.1 * weight for mean, weight in zip(average, net.parameters())]
