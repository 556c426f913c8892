"""A queue with a reader in another thread."""

import queue
import threading

from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "clean"}

waiting = queue.Queue(maxsize=4)


def read():
    while (value := waiting.get()) is not None:
        value.mean().item()


reader = threading.Thread(target=read)
reader.start()
net = model()
optimizer = sgd(net)
for _ in steps(24):
    output = net(batch())
    train_step(optimizer, output.square().mean())
    waiting.put(output.detach().clone())
waiting.put(None)
reader.join()
