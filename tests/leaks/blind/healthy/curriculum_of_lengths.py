"""A curriculum: every few steps the batch grows, up to a limit."""

from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "clean"}

net = model()
optimizer = sgd(net)
for step in steps(48):
    examples = batch(16 * (1 + min(step // 6, 5)))
    train_step(optimizer, net(examples).square().mean())
