"""create_graph=True, and gradients are never set to None: they hold each other's graphs."""

from parts import batch, model, steps

EXPECTED = {"verdict": "leak", "holder": "grad"}

net = model()
for _ in steps():
    loss = net(batch()).pow(3).mean()  # leaks
    loss.backward(create_graph=True)  # leaks
