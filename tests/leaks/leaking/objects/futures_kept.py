"""Finished futures keep their results."""

from concurrent.futures import ThreadPoolExecutor

from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "leak", "holder": "futures"}


def blurred(value):
    return value.cumsum(dim=0)  # leaks


net = model()
optimizer = sgd(net)
futures = []
with ThreadPoolExecutor(1) as pool:
    for _ in steps():
        output = net(batch())
        train_step(optimizer, output.square().mean())
        futures.append(pool.submit(blurred, output.detach()))
        futures[-1].result()
