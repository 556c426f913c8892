"""A function that refers to itself holds its locals until the collector runs."""

import gc

from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "cycles", "holder": "retry", "steps": 40}


def evaluate(output):
    scores = output.detach().exp()  # leaks

    def retry(count):
        return scores.sum() if count == 0 else retry(count - 1)

    return retry(2)


net = model()
optimizer = sgd(net)
for step in steps(40):
    output = net(batch())
    train_step(optimizer, output.square().mean())
    evaluate(output)
    if step % 9 == 8:
        gc.collect()
