"""The weights of the last three epochs."""

from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "clean"}

net = model()
optimizer = sgd(net)
states = []
for step in steps(45):
    train_step(optimizer, net(batch()).square().mean())
    if step % 5 == 4:
        states.append({name: value.clone() for name, value in net.state_dict().items()})
        states = states[-3:]
