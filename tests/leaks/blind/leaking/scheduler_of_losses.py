"""Losses of the last epoch are averaged, but the list is never emptied."""

from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "leak", "holder": "epoch_losses"}

net = model()
optimizer = sgd(net)
epoch_losses = []
for _ in steps():
    output = net(batch())
    loss = output.square()
    train_step(optimizer, loss.mean())
    epoch_losses.append((loss.detach() / 2).sqrt())  # leaks
