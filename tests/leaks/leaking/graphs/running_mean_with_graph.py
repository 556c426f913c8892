"""A running mean of a score that was never detached."""

from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "leak", "holder": "mean"}

net = model()
optimizer = sgd(net)
mean = 0.0
for _ in steps():
    train_step(optimizer, net(batch()).square().mean())
    mean = 0.9 * mean + 0.1 * net(batch()).exp().mean()  # leaks
