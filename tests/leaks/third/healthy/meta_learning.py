"""The inner loop keeps its graph, so that the outer step can differentiate through it."""

import torch
from parts import batch, model, steps

EXPECTED = {"verdict": "clean"}

net = model()
outer = torch.optim.Adam(net.parameters(), lr=1e-3)
for _ in steps(20):
    outer.zero_grad()
    for _ in range(3):
        weights = dict(net.named_parameters())
        for _ in range(2):
            loss = torch.func.functional_call(net, weights, (batch(),)).square().mean()
            gradients = torch.autograd.grad(loss, list(weights.values()), create_graph=True)
            weights = {
                name: value - 0.01 * gradient
                for (name, value), gradient in zip(weights.items(), gradients)
            }
        torch.func.functional_call(net, weights, (batch(),)).square().mean().backward()
    outer.step()
