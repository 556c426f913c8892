"""Masks are cached by length, and there is always another length."""

import torch
from parts import DEVICE, model, sgd, steps, train_step

EXPECTED = {"verdict": "leak", "holder": "masks"}

masks = {}


def mask_of(length):
    if length not in masks:
        masks[length] = torch.ones(length, 64, device=DEVICE).tril()  # leaks
    return masks[length]


net = model()
optimizer = sgd(net)
for step in steps():
    length = 40 + step * 7 % 97
    examples = torch.randn(length, 64, device=DEVICE) * mask_of(length)
    train_step(optimizer, net(examples).square().mean())
    del examples
