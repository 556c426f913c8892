"""Embeddings of every text that was ever seen."""

import torch
from parts import DEVICE, model, steps

EXPECTED = {"verdict": "leak", "holder": "embeddings"}

encoder = model().eval()
embeddings = {}
with torch.no_grad():
    for step in steps():
        text = f"question {step}"
        if text not in embeddings:
            embeddings[text] = encoder(torch.randn(16, 64, device=DEVICE))  # leaks
