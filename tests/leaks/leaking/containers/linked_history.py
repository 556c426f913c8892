"""A linked list: every entry holds the one before."""

from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "leak", "holder": "history"}

net = model()
optimizer = sgd(net)
history = None
for _ in steps():
    output = net(batch())
    train_step(optimizer, output.square().mean())
    history = (history, output.detach() * 2)  # leaks
