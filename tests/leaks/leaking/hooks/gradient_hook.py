"""A hook of a tensor keeps its gradients."""

from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "leak", "holder": "gradients"}

gradients = []


def keep(gradient):
    gradients.append(gradient.clone())  # leaks


net = model()
optimizer = sgd(net)
net[0].weight.register_hook(keep)
for _ in steps():
    train_step(optimizer, net(batch()).square().mean())
