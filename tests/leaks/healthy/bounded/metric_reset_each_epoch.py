"""A metric collects predictions for an epoch of eight steps, then it is reset."""

import torch
from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "clean"}

net = model()
optimizer = sgd(net)
predictions = []
for step in steps(40):
    output = net(batch())
    train_step(optimizer, output.square().mean())
    predictions.append(output.detach())
    if step % 8 == 7:
        torch.cat(predictions).mean().item()
        predictions = []
