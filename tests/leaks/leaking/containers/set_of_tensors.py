"""Tensors hash by identity, so a set never finds one again."""

from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "leak", "holder": "seen"}

net = model()
optimizer = sgd(net)
seen = set()
for _ in steps():
    output = net(batch())
    train_step(optimizer, output.square().mean())
    seen.add(output.detach().round())  # leaks
