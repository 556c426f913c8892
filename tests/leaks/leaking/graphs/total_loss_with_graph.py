"""The sum of all losses keeps the graph of every step."""

from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "leak", "holder": "total"}

net = model()
optimizer = sgd(net)
total = 0
for _ in steps():
    train_step(optimizer, net(batch()).square().mean())
    total = total + net(batch()).abs().mean()  # leaks
