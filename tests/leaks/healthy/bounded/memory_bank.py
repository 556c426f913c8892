"""A queue of keys as in contrastive learning."""

import torch
from parts import DEVICE, batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "clean"}

net = model()
optimizer = sgd(net)
keys = torch.zeros(0, 64, device=DEVICE)
for _ in steps(30):
    output = net(batch())
    train_step(optimizer, (output @ keys.T).square().mean() + output.square().mean())
    keys = torch.cat([output.detach(), keys])[:256].clone()
