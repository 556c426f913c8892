"""Each hidden state remembers the one before it, in an attribute of the tensor."""

from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "leak", "holder": "previous"}

net = model()
optimizer = sgd(net)
state = None
for _ in steps():
    output = net(batch())
    train_step(optimizer, output.square().mean())
    newest = output.detach().tanh()  # leaks
    newest.previous = state
    state = newest
    del newest
