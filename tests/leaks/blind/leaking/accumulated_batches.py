"""Gradient accumulation; the batches are kept."""

from parts import batch, model, sgd, steps

EXPECTED = {"verdict": "leak", "holder": "seen", "steps": 40}

net = model()
optimizer = sgd(net)
seen = []
for step in steps(40):
    examples = batch().clone()  # leaks
    seen.append(examples)
    (net(examples).square().mean() / 2).backward()
    if step % 2:
        optimizer.step()
        optimizer.zero_grad()
