"""A curriculum: sequences grow longer in every step, and so does all that is made of them."""

import torch
from parts import DEVICE, model, sgd, steps, train_step

EXPECTED = {"verdict": "clean"}

net = model()
optimizer = sgd(net)
for step in steps(24):
    examples = torch.randn(16 + 8 * step, 64, device=DEVICE)
    output = net(examples)
    loss = output.square().mean()
    train_step(optimizer, loss)
