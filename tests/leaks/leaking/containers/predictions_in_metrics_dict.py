"""A dict of metrics holds tensors instead of numbers."""

from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "leak", "holder": "metrics"}

net = model()
optimizer = sgd(net)
metrics = {"loss": [], "predictions": []}
for _ in steps():
    output = net(batch())
    loss = output.square().mean()
    train_step(optimizer, loss)
    metrics["loss"].append(loss.item())
    metrics["predictions"].append(output.detach().sigmoid())  # leaks
