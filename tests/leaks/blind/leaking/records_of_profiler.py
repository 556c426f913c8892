"""A home-made tracer keeps the inputs and outputs of every call."""

import functools

from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "leak", "holder": "calls"}

calls = []


def traced(function):
    @functools.wraps(function)
    def wrapper(*arguments):
        result = function(*arguments)
        calls.append((function.__name__, arguments, result))
        return result

    return wrapper


@traced
def normalized(values):
    return (values - values.mean()) / values.std()  # leaks


net = model()
optimizer = sgd(net)
for _ in steps():
    examples = batch()  # leaks
    train_step(optimizer, net(normalized(examples)).square().mean())
