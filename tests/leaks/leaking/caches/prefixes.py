"""A cache of prefixes without eviction."""

import torch
from parts import DEVICE, model, steps

EXPECTED = {"verdict": "leak", "holder": "prefixes"}


class Server:
    def __init__(self):
        self.net = model().eval()
        self.prefixes = {}

    def answer(self, prompt):
        key = hash(prompt)
        if key not in self.prefixes:
            self.prefixes[key] = self.net(torch.randn(24, 64, device=DEVICE))  # leaks
        return self.prefixes[key].mean().item()


server = Server()
with torch.no_grad():
    for request in steps():
        server.answer(f"prompt {request}")
        server.answer("prompt 0")
