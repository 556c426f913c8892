"""A reservoir of twelve batches that represents the stream: it fills, then single ones change."""

import random

from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "clean"}

SIZE = 12
draws = random.Random(3)
net = model()
optimizer = sgd(net)
reservoir = []
for number in steps(70):
    inputs = batch()
    train_step(optimizer, net(inputs).square().mean())
    if len(reservoir) < SIZE:
        reservoir.append(inputs)
    elif (place := draws.randrange(number + 1)) < SIZE:
        reservoir[place] = inputs
