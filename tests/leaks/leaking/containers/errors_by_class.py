"""Hard examples of each class, without a limit."""

from collections import defaultdict

from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "leak", "holder": "hard"}

net = model()
optimizer = sgd(net)
hard = defaultdict(list)
for step in steps():
    examples = batch()
    train_step(optimizer, net(examples).square().mean())
    hard[step % 3].append(examples[4:20].clone())  # leaks
