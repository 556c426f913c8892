"""Mixed precision."""

import torch
from parts import DEVICE, batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "clean"}

net = model()
optimizer = sgd(net)
for _ in steps(20):
    with torch.autocast(DEVICE, dtype=torch.bfloat16):
        loss = net(batch()).float().square().mean()
    train_step(optimizer, loss)
