"""Gradients are zeroed in place and stay allocated."""

from parts import batch, model, sgd, steps

EXPECTED = {"verdict": "clean"}

net = model()
optimizer = sgd(net)
for _ in steps(20):
    net(batch()).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=False)
