"""Each step's objects refer to each other, and the program collects them after every third."""

import gc

from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "clean"}


class Node:
    def __init__(self, value):
        self.value = value
        self.itself = self


net = model()
optimizer = sgd(net)
for number in steps(40):
    output = net(batch())
    train_step(optimizer, output.square().mean())
    Node(output.detach())
    if number % 3 == 2:
        gc.collect()
