"""A hook is registered in every step, and removed."""

from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "clean"}

net = model()
optimizer = sgd(net)
for _ in steps(20):
    seen = []
    handle = net[0].register_forward_hook(
        lambda module, inputs, output, seen=seen: seen.append(output.detach().clone())
    )
    train_step(optimizer, net(batch()).square().mean())
    handle.remove()
