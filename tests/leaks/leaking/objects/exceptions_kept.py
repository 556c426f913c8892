"""An exception holds its traceback, which holds the frames and their tensors."""

from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "leak", "holder": "failures"}


def check(output):
    scaled = output.detach() * 3  # leaks
    if scaled.sum() != 0:
        raise ValueError("not zero")


net = model()
optimizer = sgd(net)
failures = []
for _ in steps():
    output = net(batch())  # leaks
    train_step(optimizer, output.square().mean())
    try:
        check(output)
    except ValueError as error:
        failures.append(error)
