"""Every step registers a function for the end of the program, with a tensor to be saved then."""

import atexit
import functools

from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "leak", "holder": "atexit"}


def save(tensor, name):
    return (tensor.sum().item(), name)


net = model()
optimizer = sgd(net)
for number in steps():
    output = net(batch())
    train_step(optimizer, output.square().mean())
    worst = output.detach().abs().sort(dim=0).values  # leaks
    atexit.register(functools.partial(save, worst, number))
    del worst
