"""A module whose part has a hook of the module's own, and the garbage collector is off."""

import gc

import torch
from parts import DEVICE, batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "leak", "holder": "_forward_hooks"}


class Probe(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(64, 64, device=DEVICE)  # leaks
        self.inner.register_forward_hook(self.watch)

    def watch(self, module, inputs, output):
        self.norm = output.detach().norm().item()


net = model()
optimizer = sgd(net)
gc.disable()
for _ in steps():
    train_step(optimizer, net(batch()).square().mean())
    Probe()
