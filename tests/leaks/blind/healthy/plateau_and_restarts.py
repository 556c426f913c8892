"""AdamW with warm restarts: the optimizer is made anew four times, with larger widths first."""

import torch
from parts import batch, model, steps, train_step

EXPECTED = {"verdict": "clean"}

net = model()
for step in steps(48):
    if step % 12 == 0:
        optimizer = torch.optim.AdamW(net.parameters(), lr=0.01 / (1 + step))
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 12)
    train_step(optimizer, net(batch()).square().mean())
    schedule.step()
