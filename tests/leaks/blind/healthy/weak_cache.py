"""A WeakValueDictionary caches what is in use, and no more."""

import weakref

from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "clean"}


class Features:
    def __init__(self, values):
        self.values = values


net = model()
optimizer = sgd(net)
cache: weakref.WeakValueDictionary = weakref.WeakValueDictionary()
for step in steps(30):
    features = Features(batch().relu())
    cache[step] = features
    train_step(optimizer, net(features.values).square().mean())
