"""A slice of one row keeps the whole tensor."""

from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "leak", "holder": "firsts"}

net = model()
optimizer = sgd(net)
firsts = []
for _ in steps():
    output = net(batch())  # leaks
    train_step(optimizer, output.square().mean())
    firsts.append(output.detach()[0])
