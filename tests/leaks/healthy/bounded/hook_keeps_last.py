"""A hook keeps the last activation only."""

from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "clean"}

last = {}


def keep(module, inputs, output):
    last["layer"] = output.detach().clone()


net = model()
net[0].register_forward_hook(keep)
optimizer = sgd(net)
for _ in steps(20):
    train_step(optimizer, net(batch()).square().mean())
