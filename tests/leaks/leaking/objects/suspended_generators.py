"""Generators that are never finished hold their locals."""

from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "leak", "holder": "generators"}


def stages(output):
    halves = output / 2  # leaks
    yield halves.sum()
    yield halves.mean()


net = model()
optimizer = sgd(net)
generators = []
for _ in steps():
    output = net(batch())  # leaks
    train_step(optimizer, output.square().mean())
    generator = stages(output.detach())
    next(generator)
    generators.append(generator)
