"""Norms of all gradients are kept as numbers."""

from parts import batch, model, sgd, steps

EXPECTED = {"verdict": "clean"}

net = model()
optimizer = sgd(net)
norms = []
for _ in steps(24):
    net(batch()).square().mean().backward()
    norms.append([weight.grad.norm().item() for weight in net.parameters()])
    optimizer.step()
    optimizer.zero_grad()
