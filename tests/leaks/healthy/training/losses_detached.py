"""Losses are kept as tensors of four bytes: not worth a word."""

from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "clean"}

net = model()
optimizer = sgd(net)
losses = []
for _ in steps(30):
    loss = net(batch()).square().mean()
    train_step(optimizer, loss)
    losses.append(loss.detach())
