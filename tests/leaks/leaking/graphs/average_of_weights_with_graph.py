"""A learnable decay: the average of the weights holds the graph of all steps."""

import torch
from parts import DEVICE, batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "leak", "holder": "average"}

net = model()
optimizer = sgd(net)
decay = torch.full((), 0.9, device=DEVICE, requires_grad=True)
average = [weight.detach().clone() for weight in net.parameters()]
for _ in steps():
    train_step(optimizer, net(batch()).square().mean())
    average = [
        decay * mean + (1 - decay) * weight.detach()  # leaks
        for mean, weight in zip(average, net.parameters())
    ]
