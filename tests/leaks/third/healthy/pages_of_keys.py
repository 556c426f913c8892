"""Keys of all conversations live in pages, which are made when needed and used again."""

import random

import torch
from parts import DEVICE, steps

EXPECTED = {"verdict": "clean"}

draws = random.Random(11)
project = torch.nn.Linear(64, 64).to(DEVICE)
free, pages, conversations = [], [], {}


@torch.no_grad()
def answer(name, token):
    table = conversations.setdefault(name, [])
    if not free:
        pages.append(torch.zeros(16, 64, device=DEVICE))
        free.append(len(pages) - 1)
    page = free.pop()
    pages[page][0] = project(token)
    table.append(page)
    return torch.stack([pages[number][0] for number in table]).mean()


for _ in steps(120):
    name = draws.randrange(4)
    answer(name, torch.randn(64, device=DEVICE))
    if len(conversations[name]) == 5:
        free.extend(conversations.pop(name))
