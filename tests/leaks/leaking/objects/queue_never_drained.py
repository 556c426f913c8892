"""A queue that nobody reads."""

import queue

from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "leak", "holder": "waiting"}

net = model()
optimizer = sgd(net)
waiting = queue.Queue()
for _ in steps():
    output = net(batch())
    train_step(optimizer, output.square().mean())
    waiting.put(output.detach().half())  # leaks
