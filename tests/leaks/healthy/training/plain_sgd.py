"""Plain training."""

from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "clean"}

net = model()
optimizer = sgd(net)
for _ in steps(20):
    train_step(optimizer, net(batch()).square().mean())
