"""A debugger keeps the last node of every graph."""

from parts import batch, model, steps

EXPECTED = {"verdict": "leak", "holder": "nodes"}

net = model()
nodes = []
for _ in steps():
    nodes.append(net(batch()).square().mean().grad_fn)  # leaks
