"""What is to be done when the model dies is registered in every step, with the step's output."""

import weakref

from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "leak", "holder": "finalize"}


def report(output):
    return output.shape


net = model()
optimizer = sgd(net)
for _ in steps():
    output = net(batch())  # leaks
    train_step(optimizer, output.square().mean())
    weakref.finalize(net, report, output.detach())
