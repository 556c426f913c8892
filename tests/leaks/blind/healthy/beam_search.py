"""Beams are replaced in every step of the search; several searches."""

import torch
from parts import DEVICE, model

EXPECTED = {"verdict": "clean"}

net = model().eval()
with torch.no_grad():
    for _ in range(4):
        beams = [torch.randn(1, 64, device=DEVICE)]
        for _ in range(10):
            grown = [torch.cat([beam, net(beam[-1:])]) for beam in beams for _ in range(2)]
            beams = sorted(grown, key=lambda beam: beam.sum().item())[:4]
