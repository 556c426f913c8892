"""Evolution: each generation's best network is kept with its parents."""

import copy

import torch
from parts import batch, model, steps

EXPECTED = {"verdict": "leak", "holder": "ancestors"}

best = model()
ancestors = []
for _ in steps(24):
    children = [copy.deepcopy(best) for _ in range(3)]  # leaks
    with torch.no_grad():
        for child in children:
            for parameter in child.parameters():
                parameter.add_(0.01 * torch.randn_like(parameter))
        scores = [child(batch()).square().mean().item() for child in children]
    best = children[scores.index(min(scores))]
    ancestors.append(best)
