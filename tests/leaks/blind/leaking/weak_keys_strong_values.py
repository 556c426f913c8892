"""A WeakKeyDictionary whose values refer to their keys: nothing is ever removed."""

import weakref

from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "leak", "holder": "notes"}


class Request:
    def __init__(self, examples):
        self.examples = examples


net = model()
optimizer = sgd(net)
notes: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
for _ in steps():
    request = Request(batch().mul(2))  # leaks
    notes[request] = {"of": request}
    train_step(optimizer, net(request.examples).square().mean())
