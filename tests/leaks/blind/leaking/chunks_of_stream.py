"""A stream without modules: every chunk's spectrum is kept."""

import torch
from parts import DEVICE, steps

EXPECTED = {"verdict": "leak", "holder": "spectra"}

window = torch.hann_window(512, device=DEVICE)
spectra = []
for _ in steps():
    chunk = torch.randn(512, device=DEVICE) * window
    spectrum = torch.fft.fft(chunk)
    spectra.append(spectrum.abs().repeat(4))  # leaks
