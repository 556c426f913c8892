"""A default argument is created once, and keeps what is appended to it."""

from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "leak", "holder": "kept"}


def note(output, kept=[]):
    kept.append(output.detach() + 1)  # leaks


net = model()
optimizer = sgd(net)
for _ in steps():
    output = net(batch())
    train_step(optimizer, output.square().mean())
    note(output)
