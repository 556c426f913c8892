"""A copy of the model after every step."""

import copy

from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "leak", "holder": "best"}

net = model()
optimizer = sgd(net)
best = []
for _ in steps():
    loss = net(batch()).square().mean()
    train_step(optimizer, loss)
    best.append((loss.item(), copy.deepcopy(net)))  # leaks
