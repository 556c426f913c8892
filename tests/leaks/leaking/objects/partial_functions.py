"""Callbacks that are collected, each with a tensor."""

import functools

from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "leak", "holder": "callbacks"}

net = model()
optimizer = sgd(net)
callbacks = []
for _ in steps():
    output = net(batch())
    train_step(optimizer, output.square().mean())
    callbacks.append(functools.partial(print, output.detach().sin()))  # leaks
