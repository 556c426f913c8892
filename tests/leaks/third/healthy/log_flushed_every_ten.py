"""Outputs are collected and written together after every tenth step."""

import torch
from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "clean"}

net = model()
optimizer = sgd(net)
waiting = []
written = 0
for number in steps(47):
    output = net(batch())
    train_step(optimizer, output.square().mean())
    waiting.append(output.detach())
    if number % 10 == 9:
        written += torch.cat(waiting).numel()
        waiting.clear()
