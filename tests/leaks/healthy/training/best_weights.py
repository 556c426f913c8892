"""A copy of the best weights, replaced whenever there are better ones."""

import copy

from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "clean"}

net = model()
optimizer = sgd(net)
best, least = None, float("inf")
for _ in steps(24):
    loss = net(batch()).square().mean()
    train_step(optimizer, loss)
    if loss.item() < least:
        best, least = copy.deepcopy(net.state_dict()), loss.item()
