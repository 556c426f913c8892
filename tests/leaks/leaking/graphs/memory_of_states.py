"""A memory of recurrent states, with their graphs."""

import torch
from parts import DEVICE, batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "leak", "holder": "memory"}

encoder = torch.nn.RNN(64, 64).to(DEVICE)
net = model()
optimizer = sgd(net)
memory = []
for _ in steps():
    train_step(optimizer, net(batch()).square().mean())
    _, state = encoder(batch()[None])  # leaks
    memory.append(state)
