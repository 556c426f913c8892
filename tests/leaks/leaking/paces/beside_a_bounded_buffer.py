"""A leak next to a buffer that is bounded."""

from collections import deque

from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "leak", "holder": "kept"}

net = model()
optimizer = sgd(net)
recent = deque(maxlen=4)
kept = []
for _ in steps():
    output = net(batch())
    train_step(optimizer, output.square().mean())
    recent.append(output.detach() + 1)
    kept.append(output.detach() + 2)  # leaks
