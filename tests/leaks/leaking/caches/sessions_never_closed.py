"""A server keeps the keys and values of every session."""

import torch
from parts import DEVICE, steps

EXPECTED = {"verdict": "leak", "holder": "sessions"}

projection = torch.nn.Linear(64, 128).to(DEVICE)
sessions = {}


def serve(session, token):
    keys, values = projection(token).chunk(2, dim=-1)
    held = sessions.setdefault(session, [])
    held.append((keys.clone(), values.clone()))  # leaks
    return torch.cat([keys for keys, _ in held]).mean()


with torch.no_grad():
    for request in steps():
        for _ in range(4):
            serve(request, torch.randn(4, 64, device=DEVICE))
