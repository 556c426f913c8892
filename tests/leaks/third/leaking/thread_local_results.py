"""Worker threads keep what they computed in a list that each thread has for itself."""

import threading
from concurrent.futures import ThreadPoolExecutor

import torch
from parts import batch, model, steps

EXPECTED = {"verdict": "leak", "holder": "own"}

net = model()
own = threading.local()


def answer(request):
    if not hasattr(own, "results"):
        own.results = []
    with torch.no_grad():
        result = net(request)  # leaks
    own.results.append(result)
    return result.argmax(dim=1)


with ThreadPoolExecutor(2) as pool:
    for _ in steps(30):
        pool.submit(answer, batch()).result()
