"""Every step adds a hook to a parameter; its closure keeps that step's scale."""

from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "leak", "holder": "hooks"}

net = model()
optimizer = sgd(net)


def scale_by(scale):
    return lambda gradient: gradient * scale.mean()


for _ in steps():
    examples = batch()
    net[0].weight.register_hook(scale_by(examples.abs().add(1)))  # leaks
    train_step(optimizer, net(examples).square().mean())
