"""The perturbation of one step starts from that of the step before, with its graph."""

import torch
from parts import DEVICE, batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "leak", "holder": "noise"}

net = model()
optimizer = sgd(net)
noise = torch.zeros(32, 64, device=DEVICE, requires_grad=True)
for _ in steps():
    examples = batch()
    noise = (noise + examples * 0.1).tanh()  # leaks
    train_step(optimizer, net(examples + noise.detach()).square().mean())
