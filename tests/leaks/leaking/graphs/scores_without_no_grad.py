"""Inference without no_grad(): the scores keep the activations."""

from parts import batch, model, steps

EXPECTED = {"verdict": "leak", "holder": "scores"}

net = model().eval()
scores = []
for _ in steps():
    scores.append(net(batch()).sum())  # leaks
