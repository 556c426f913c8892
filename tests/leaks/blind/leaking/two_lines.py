"""Two lines leak, at different paces."""

from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "leak", "holder": "kept"}

net = model()
optimizer = sgd(net)
kept = []
for step in steps():
    output = net(batch())
    train_step(optimizer, output.square().mean())
    kept.append(output.detach() + 1)  # leaks
    if step % 2:
        kept.append(output.detach().repeat(2, 1))  # leaks
