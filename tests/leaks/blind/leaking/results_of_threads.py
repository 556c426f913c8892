"""A worker thread computes losses and puts them into a queue that nobody reads."""

import queue
import threading

from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "leak", "holder": "results"}

net = model()
optimizer = sgd(net)
work: queue.Queue = queue.Queue(maxsize=1)
results: queue.Queue = queue.Queue()


def worker():
    while (examples := work.get()) is not None:
        train_step(optimizer, net(examples).square().mean())
        results.put(examples.sigmoid())  # leaks
        work.task_done()


thread = threading.Thread(target=worker)
thread.start()
for _ in steps(30):
    work.put(batch())
    work.join()
work.put(None)
thread.join()
