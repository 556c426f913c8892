"""Reference cycles, which the garbage collector frees now and then."""

import gc

from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "cycles", "holder": "Node", "steps": 40}


class Node:
    def __init__(self, value):
        self.value = value
        self.itself = self


net = model()
optimizer = sgd(net)
for step in steps(40):
    output = net(batch())
    train_step(optimizer, output.square().mean())
    Node(output.detach().clone())  # leaks
    if step % 11 == 9:
        gc.collect()
