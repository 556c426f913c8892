"""Inference with steps that the program marks itself."""

import gpumemprof
import torch
from parts import DEVICE, steps

EXPECTED = {"verdict": "leak", "holder": "kept"}

kept = []
weights = torch.randn(64, 64, device=DEVICE)
for _ in steps():
    gpumemprof.step()
    result = torch.randn(32, 64, device=DEVICE) @ weights
    kept.append(result.relu())  # leaks
