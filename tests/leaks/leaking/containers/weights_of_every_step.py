"""A copy of the weights of every step."""

from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "leak", "holder": "states"}

net = model()
optimizer = sgd(net)
states = []
for _ in steps():
    train_step(optimizer, net(batch()).square().mean())
    states.append({name: value.clone() for name, value in net.state_dict().items()})  # leaks
