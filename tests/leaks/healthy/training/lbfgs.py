"""LBFGS keeps a bounded history of directions."""

import torch
from parts import batch, model, steps

EXPECTED = {"verdict": "clean"}

net = model()
optimizer = torch.optim.LBFGS(net.parameters(), max_iter=2, history_size=5)
for _ in steps(20):
    examples = batch()

    def closure(examples=examples):
        optimizer.zero_grad()
        loss = net(examples).square().mean()
        loss.backward()
        return loss

    optimizer.step(closure)
