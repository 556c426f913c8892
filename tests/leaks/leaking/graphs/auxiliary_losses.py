"""Losses that nobody calls backward on keep their graphs."""

from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "leak", "holder": "losses"}

net = model()
optimizer = sgd(net)
losses = []
for _ in steps():
    output = net(batch())
    train_step(optimizer, output.square().mean())
    losses.append(net(batch()).mean())  # leaks
