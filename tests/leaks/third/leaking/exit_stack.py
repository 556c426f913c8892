"""A stack of contexts is meant to be closed after each step, but is closed after training."""

import contextlib

from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "leak", "holder": "stack"}


@contextlib.contextmanager
def scaled(inputs):
    copy = inputs * 2  # leaks
    yield copy
    copy.zero_()


net = model()
optimizer = sgd(net)
with contextlib.ExitStack() as stack:
    for _ in steps():
        inputs = stack.enter_context(scaled(batch()))  # leaks
        train_step(optimizer, net(inputs).square().mean())
