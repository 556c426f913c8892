"""saved_tensors_hooks puts everything that is saved into a list."""

import torch
from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "leak", "holder": "packed"}

net = model()
optimizer = sgd(net)
packed = []


def pack(value):
    packed.append(value.detach().clone())  # leaks
    return len(packed) - 1


for _ in steps():
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda index: packed[index]):
        loss = net(batch()).square().mean()
    train_step(optimizer, loss)
