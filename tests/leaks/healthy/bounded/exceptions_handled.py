"""An exception in every step, which nobody keeps."""

from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "clean"}


def check(output):
    scaled = output.detach() * 3
    if scaled.sum() != 0:
        raise ValueError("not zero")


net = model()
optimizer = sgd(net)
for _ in steps(20):
    output = net(batch())
    train_step(optimizer, output.square().mean())
    try:
        check(output)
    except ValueError:
        pass
