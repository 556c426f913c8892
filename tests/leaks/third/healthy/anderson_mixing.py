"""A fixed point is accelerated with the last five iterates; each batch starts anew."""

import torch
from parts import batch, model, steps

EXPECTED = {"verdict": "clean"}

net = model()


@torch.no_grad()
def fixed_point(inputs):
    points, values = [], []
    point = torch.zeros_like(inputs)
    for _ in range(12):
        value = torch.tanh(net(point) * 0.1 + inputs)
        points.append(point)
        values.append(value)
        points, values = points[-5:], values[-5:]
        point = torch.stack(values).mean(dim=0)
    return point


for _ in steps(25):
    fixed_point(batch()).norm().item()
