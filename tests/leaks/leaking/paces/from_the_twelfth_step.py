"""A leak that begins late."""

from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "leak", "holder": "kept", "begins": 12, "steps": 27}

net = model()
optimizer = sgd(net)
kept = []
for step in steps(27):
    output = net(batch())
    train_step(optimizer, output.square().mean())
    if step >= 12:
        kept.append(output.detach().clone())  # leaks
