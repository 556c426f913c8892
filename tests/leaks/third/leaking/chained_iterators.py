"""The history of losses per sample is one iterator around the other."""

import itertools

from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "leak", "holder": "history"}

net = model()
optimizer = sgd(net)
history = iter(())
for _ in steps():
    inputs = batch(rows=512)
    loss = (net(inputs) - inputs).square().mean(dim=1)  # leaks
    train_step(optimizer, loss.mean())
    history = itertools.chain(history, [loss.detach()])
