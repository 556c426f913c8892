"""A hook that runs before a layer keeps its inputs, for an importance score."""

from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "leak", "holder": "inputs_of"}

inputs_of = {}


def keep(module, inputs):
    inputs_of.setdefault(id(module), []).append(inputs[0].detach() ** 2)  # leaks


net = model()
net[2].register_forward_pre_hook(keep)
optimizer = sgd(net)
for _ in steps():
    train_step(optimizer, net(batch()).square().mean())
