"""retain_graph=True, and the loss is kept: its graph stays."""

from parts import batch, model, sgd, steps

EXPECTED = {"verdict": "leak", "holder": "losses"}

net = model()
optimizer = sgd(net)
losses = []
for _ in steps():
    loss = net(batch()).square().mean()  # leaks
    loss.backward(retain_graph=True)
    optimizer.step()
    optimizer.zero_grad()
    losses.append(loss)
