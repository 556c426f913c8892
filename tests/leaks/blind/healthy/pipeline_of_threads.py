"""Batches go through a bounded queue between two threads."""

import queue
import threading

from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "clean"}

net = model()
optimizer = sgd(net)
ready: queue.Queue = queue.Queue(maxsize=3)


def load():
    for _ in steps(40):
        ready.put(batch().mul(0.5))
    ready.put(None)


thread = threading.Thread(target=load)
thread.start()
while (examples := ready.get()) is not None:
    train_step(optimizer, net(examples).square().mean())
thread.join()
