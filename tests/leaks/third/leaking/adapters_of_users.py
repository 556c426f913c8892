"""A server makes an adapter for every user and registers it in the model."""

import torch
from parts import DEVICE, batch, model, steps

EXPECTED = {"verdict": "leak", "holder": "adapters"}


class Served(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.base = model()
        self.adapters = torch.nn.ModuleDict()

    def adapter_of(self, user):
        if user not in self.adapters:
            self.adapters[user] = torch.nn.Linear(64, 64, device=DEVICE)  # leaks
        return self.adapters[user]

    def forward(self, inputs, user):
        return self.base(inputs) + self.adapter_of(user)(inputs)


served = Served()
with torch.no_grad():
    for number in steps(40):
        served(batch(), f"user{number}")
