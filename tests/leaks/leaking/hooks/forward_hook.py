"""A forward hook keeps the activations of a layer."""

from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "leak", "holder": "activations"}

activations = []


def keep(module, inputs, output):
    activations.append(output.detach().clone())  # leaks


net = model()
net[0].register_forward_hook(keep)
optimizer = sgd(net)
for _ in steps():
    train_step(optimizer, net(batch()).square().mean())
