"""Every step's outputs are kept for a plot that nobody draws."""

from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "leak", "holder": "outputs"}

net = model()
optimizer = sgd(net)
outputs = []
for _ in steps():
    output = net(batch())  # leaks
    train_step(optimizer, output.square().mean())
    outputs.append(output.detach())
