"""One tensor that grows: it is replaced by a longer one in every step."""

import torch
from parts import DEVICE, batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "leak", "holder": "history"}

net = model()
optimizer = sgd(net)
history = torch.zeros(0, 64, device=DEVICE)
for _ in steps():
    output = net(batch())
    train_step(optimizer, output.square().mean())
    history = torch.cat([history, output.detach()])  # leaks
