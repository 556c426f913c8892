"""Slow weights are updated every five steps."""

import torch
from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "clean"}

net = model()
optimizer = sgd(net)
slow = [weight.detach().clone() for weight in net.parameters()]
for step in steps(30):
    train_step(optimizer, net(batch()).square().mean())
    if step % 5 == 4:
        with torch.no_grad():
            for mean, weight in zip(slow, net.parameters()):
                mean += 0.5 * (weight - mean)
                weight.copy_(mean)
