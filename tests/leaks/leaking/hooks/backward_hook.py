"""A backward hook of a module keeps what flows through it."""

from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "leak", "holder": "flow"}

flow = {}


def keep(module, before, after):
    flow.setdefault("layer", []).append(after[0].clone())  # leaks


net = model()
net[0].register_full_backward_hook(keep)
optimizer = sgd(net)
for _ in steps():
    train_step(optimizer, net(batch()).square().mean())
