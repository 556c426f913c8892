"""A leak in every third step."""

from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "leak", "holder": "kept", "bytes_per_step": 2730.67}

net = model()
optimizer = sgd(net)
kept = []
for step in steps():
    output = net(batch())
    train_step(optimizer, output.square().mean())
    if step % 3 == 0:
        kept.append(output.detach().clone())  # leaks
