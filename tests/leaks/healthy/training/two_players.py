"""Two models that train each other."""

import torch
from parts import batch, model, steps

EXPECTED = {"verdict": "clean"}

maker, judge = model(), model()
first = torch.optim.Adam(maker.parameters())
second = torch.optim.Adam(judge.parameters())
for _ in steps(20):
    made = maker(batch())
    second.zero_grad()
    (judge(made.detach()).mean() - judge(batch()).mean()).backward()
    second.step()
    first.zero_grad()
    judge(made).mean().backward()
    first.step()
