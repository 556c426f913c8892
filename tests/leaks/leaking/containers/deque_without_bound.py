"""A deque whose bound was forgotten."""

from collections import deque

from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "leak", "holder": "recent"}

net = model()
optimizer = sgd(net)
recent = deque()
for _ in steps():
    output = net(batch())
    train_step(optimizer, output.square().mean())
    recent.append(output.detach().clone())  # leaks
