"""A recurrent layer keeps its state as an attribute, with the graph."""

import torch
from parts import DEVICE, batch, steps

EXPECTED = {"verdict": "leak", "holder": "state"}


class Cell(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(64, 64)
        self.state = None

    def forward(self, value):
        hidden = self.inner(value)  # leaks
        self.state = hidden.tanh() if self.state is None else (hidden + self.state).tanh()  # leaks
        return self.state


cell = Cell().to(DEVICE)
for _ in steps():
    cell(batch())  # leaks
