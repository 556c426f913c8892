"""Attention maps of every step are kept for a picture."""

import torch
from parts import DEVICE, batch, sgd, steps, train_step

EXPECTED = {"verdict": "leak", "holder": "maps"}

attention = torch.nn.MultiheadAttention(64, 4, batch_first=True).to(DEVICE)
optimizer = sgd(attention)
maps = []
for _ in steps():
    examples = batch()[None]
    output, weights = attention(examples, examples, examples)  # leaks
    maps.append(weights.detach())
    train_step(optimizer, output.square().mean())
