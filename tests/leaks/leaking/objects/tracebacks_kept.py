"""The same with sys.exc_info(), in a server."""

import sys

import torch
from parts import batch, model, steps

EXPECTED = {"verdict": "leak", "holder": "errors"}

net = model().eval()
errors = []


def handle(request):
    logits = net(request)  # leaks
    raise RuntimeError(f"no answer of shape {tuple(logits.shape)}")


with torch.no_grad():
    for _ in steps():
        try:
            handle(batch())  # leaks
        except RuntimeError:
            errors.append(sys.exc_info())
