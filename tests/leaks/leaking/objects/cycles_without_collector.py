"""Reference cycles, and the garbage collector is off."""

import gc

from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "leak", "holder": "Node"}


class Node:
    def __init__(self, value):
        self.value = value
        self.itself = self


net = model()
optimizer = sgd(net)
gc.disable()
for _ in steps():
    output = net(batch())
    train_step(optimizer, output.square().mean())
    Node(output.detach().clone())  # leaks
