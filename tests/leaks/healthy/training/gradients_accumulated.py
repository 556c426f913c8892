"""Gradients of four batches are added up before each step."""

from parts import batch, model, sgd, steps

EXPECTED = {"verdict": "clean"}

net = model()
optimizer = sgd(net)
for step in steps(40):
    (net(batch()).square().mean() / 4).backward()
    if step % 4 == 3:
        optimizer.step()
        optimizer.zero_grad()
