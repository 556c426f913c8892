"""Losses are kept as numbers."""

from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "clean"}

net = model()
optimizer = sgd(net)
losses = []
for _ in steps(20):
    loss = net(batch()).square().mean()
    train_step(optimizer, loss)
    losses.append(loss.item())
