"""Copies of all gradients, for a histogram."""

from parts import batch, model, sgd, steps

EXPECTED = {"verdict": "leak", "holder": "gradients"}

net = model()
optimizer = sgd(net)
gradients = []
for _ in steps():
    net(batch()).square().mean().backward()
    gradients.append([weight.grad.clone() for weight in net.parameters()])  # leaks
    optimizer.step()
    optimizer.zero_grad()
