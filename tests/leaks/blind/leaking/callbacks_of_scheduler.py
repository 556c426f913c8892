"""Bound methods in a list of callbacks keep their objects, and these a batch."""

from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "leak", "holder": "callbacks"}


class Logger:
    def __init__(self, examples):
        self.examples = examples.clone()  # leaks

    def write(self):
        return float(self.examples.sum())


net = model()
optimizer = sgd(net)
callbacks = []
for _ in steps():
    examples = batch()
    callbacks.append(Logger(examples).write)
    train_step(optimizer, net(examples).square().mean())
