"""Each step's object subscribes to an event bus and never leaves it."""

from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "leak", "holder": "bus"}


class Bus:
    def __init__(self):
        self.listeners = {}

    def subscribe(self, topic, listener):
        self.listeners.setdefault(topic, []).append(listener)


class StepReport:
    def __init__(self, output):
        self.output = output

    def on_epoch_end(self):
        return self.output.mean().item()


bus = Bus()
net = model()
optimizer = sgd(net)
for _ in steps():
    output = net(batch())  # leaks
    train_step(optimizer, output.square().mean())
    bus.subscribe("epoch_end", StepReport(output.detach()).on_epoch_end)
