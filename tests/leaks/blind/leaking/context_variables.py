"""Each request runs in a context of its own; the contexts are kept for their logs."""

import contextvars

import torch
from parts import batch, model, steps

EXPECTED = {"verdict": "leak", "holder": "contexts"}

hidden: contextvars.ContextVar = contextvars.ContextVar("hidden")
net = model()
contexts = []


def handle(request):
    with torch.no_grad():
        hidden.set(net(request))  # leaks
        return hidden.get().argmax(dim=1)


for _ in steps(30):
    context = contextvars.copy_context()
    context.run(handle, batch())
    contexts.append(context)
