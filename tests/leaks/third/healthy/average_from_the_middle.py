"""Averaging of weights begins in the middle of the training."""

import torch
from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "clean"}

net = model()
optimizer = sgd(net)
average = None
for number in steps(30):
    train_step(optimizer, net(batch()).square().mean())
    if number == 14:
        average = torch.optim.swa_utils.AveragedModel(net)
    elif average is not None:
        average.update_parameters(net)
