"""Batches from a loader, over several epochs."""

import torch
from parts import DEVICE, model, sgd, train_step

EXPECTED = {"verdict": "clean"}

data = torch.utils.data.TensorDataset(torch.randn(160, 64), torch.randn(160, 1))
net = model()
optimizer = sgd(net)
for _ in range(5):
    for examples, target in torch.utils.data.DataLoader(data, batch_size=32, shuffle=True):
        output = net(examples.to(DEVICE))
        train_step(optimizer, (output - target.to(DEVICE)).square().mean())
