"""The outputs of every evaluation are kept."""

import torch
from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "leak", "holder": "results"}

net = model()
optimizer = sgd(net)
results = []
for _ in steps():
    train_step(optimizer, net(batch()).square().mean())
    net.eval()
    with torch.no_grad():
        results.append(net(batch()))  # leaks
    net.train()
