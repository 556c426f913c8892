"""A cache of weak references."""

import weakref

from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "clean"}

cache = weakref.WeakValueDictionary()
net = model()
optimizer = sgd(net)
for step in steps(20):
    examples = batch()
    cache[step] = examples
    train_step(optimizer, net(examples).square().mean())
