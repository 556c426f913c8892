"""The last ten outputs."""

from collections import deque

from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "clean"}

net = model()
optimizer = sgd(net)
recent = deque(maxlen=10)
for _ in steps(30):
    output = net(batch())
    train_step(optimizer, output.square().mean())
    recent.append(output.detach())
