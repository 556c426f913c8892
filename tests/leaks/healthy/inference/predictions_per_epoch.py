"""Predictions of a data set are collected and joined, again and again."""

import torch
from parts import batch, model

EXPECTED = {"verdict": "clean"}

net = model().eval()
with torch.no_grad():
    for _ in range(5):
        predictions = []
        for _ in range(8):
            predictions.append(net(batch()))
        joined = torch.cat(predictions)
        del predictions
