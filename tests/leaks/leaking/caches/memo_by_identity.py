"""A memo by id(): every tensor is new, so nothing is ever found."""

from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "leak", "holder": "memo"}

memo = {}


def normalized(examples):
    if id(examples) not in memo:
        memo[id(examples)] = (examples, (examples - examples.mean()) / examples.std())  # leaks
    return memo[id(examples)][1]


net = model()
optimizer = sgd(net)
for _ in steps():
    examples = batch() * 2  # leaks
    train_step(optimizer, net(normalized(examples)).square().mean())
