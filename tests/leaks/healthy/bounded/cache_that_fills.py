"""Masks for ten lengths."""

import random

import torch
from parts import DEVICE, model, sgd, steps, train_step

EXPECTED = {"verdict": "clean"}

lengths = random.Random(3)
masks = {}
net = model()
optimizer = sgd(net)
for _ in steps(50):
    length = 8 * lengths.randint(1, 10)
    if length not in masks:
        masks[length] = torch.ones(length, 64, device=DEVICE).tril()
    examples = torch.randn(length, 64, device=DEVICE) * masks[length]
    train_step(optimizer, net(examples).square().mean())
