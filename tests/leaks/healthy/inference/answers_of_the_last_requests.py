"""A server that is a function keeps its last five answers and errors."""

from collections import deque

import torch
from parts import batch, model, steps

EXPECTED = {"verdict": "clean"}


def serve():
    net, answers, errors = model(), deque(maxlen=5), deque(maxlen=5)
    for request in steps(60):
        with torch.no_grad():
            answers.append(net(batch()))
        try:
            raise ValueError(request)
        except ValueError as error:
            errors.append(error)


serve()
