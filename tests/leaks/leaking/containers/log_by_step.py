"""A log with one entry for each step."""

from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "leak", "holder": "log"}

net = model()
optimizer = sgd(net)
log = {}
for step in steps():
    output = net(batch())
    train_step(optimizer, output.square().mean())
    log[step] = {"output": output.detach().clone(), "lr": 0.1}  # leaks
