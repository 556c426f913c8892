"""A closure holds the list."""

from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "leak", "holder": "kept"}


def make_logger():
    kept = []

    def log(output):
        kept.append(output.detach().abs())  # leaks

    return log


net = model()
optimizer = sgd(net)
log = make_logger()
for _ in steps():
    output = net(batch())
    train_step(optimizer, output.square().mean())
    log(output)
