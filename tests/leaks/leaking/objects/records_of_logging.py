"""Records of logging keep their arguments."""

import logging
import logging.handlers

from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "leak", "holder": "handler"}

handler = logging.handlers.MemoryHandler(10_000, flushLevel=logging.CRITICAL)
logger = logging.getLogger("leaks.records_of_logging")
logger.propagate = False
logger.setLevel(logging.INFO)
logger.handlers = [handler]
net = model()
optimizer = sgd(net)
for _ in steps():
    output = net(batch())
    train_step(optimizer, output.square().mean())
    logger.info("output %s", output.detach().clone())  # leaks
