"""The same with epochs of fifteen steps; the recording ends within the third."""

import torch
from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "clean"}

net = model()
optimizer = sgd(net)
predictions = []
for step in steps(42):
    output = net(batch())
    train_step(optimizer, output.square().mean())
    predictions.append(output.detach().sigmoid())
    if step % 15 == 14:
        torch.cat(predictions).mean().item()
        predictions.clear()
