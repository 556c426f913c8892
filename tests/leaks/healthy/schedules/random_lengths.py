"""Sequences of random lengths."""

import random

import torch
from parts import DEVICE, model, sgd, steps, train_step

EXPECTED = {"verdict": "clean"}

lengths = random.Random(5)
net = model()
optimizer = sgd(net)
for _ in steps(40):
    examples = torch.randn(lengths.randint(8, 128), 64, device=DEVICE)
    output = net(examples)
    train_step(optimizer, output.square().mean())
