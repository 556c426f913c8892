"""The outputs of the first ten steps are kept as an example; later ones are not."""

from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "clean"}

net = model()
optimizer = sgd(net)
examples = []
for number in steps(40):
    output = net(batch())
    train_step(optimizer, output.square().mean())
    if number < 10:
        examples.append(output.detach())
