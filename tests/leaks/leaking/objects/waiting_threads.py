"""Each step starts a thread that waits forever with a tensor."""

import threading

from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "leak", "holder": "wait"}

never = threading.Event()


def wait(value):
    never.wait(30)
    return value


net = model()
optimizer = sgd(net)
for _ in steps():
    output = net(batch())
    train_step(optimizer, output.square().mean())
    copy = output.detach().clone()  # leaks
    threading.Thread(target=wait, args=(copy,), daemon=True).start()
    del copy
