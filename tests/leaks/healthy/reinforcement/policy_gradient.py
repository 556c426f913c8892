"""Episodes of different lengths; every episode's log-probabilities keep graphs until its update."""

import random

import torch
from parts import DEVICE, model, sgd, steps, train_step

EXPECTED = {"verdict": "clean"}

lengths = random.Random(4)
policy = model()
optimizer = sgd(policy)
for _ in steps(20):
    scores = []
    for _ in range(lengths.randint(2, 9)):
        scores.append(policy(torch.randn(4, 64, device=DEVICE)).log_softmax(dim=1))
    train_step(optimizer, torch.stack(scores).mean())
