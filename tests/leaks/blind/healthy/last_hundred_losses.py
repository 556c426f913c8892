"""A deque with a bound of tensors that fills during the first half."""

from collections import deque

from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "clean"}

net = model()
optimizer = sgd(net)
recent: deque = deque(maxlen=20)
for _ in steps(50):
    output = net(batch())
    train_step(optimizer, output.square().mean())
    recent.append(output.detach().abs())
