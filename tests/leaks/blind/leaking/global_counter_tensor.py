"""A dataclass of statistics appends a tensor at each update."""

import dataclasses

from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "leak", "holder": "statistics"}


@dataclasses.dataclass
class Statistics:
    means: list = dataclasses.field(default_factory=list)

    def update(self, output):
        self.means.append(output.detach().cumsum(dim=1))  # leaks


net = model()
optimizer = sgd(net)
statistics = Statistics()
for _ in steps():
    output = net(batch())
    train_step(optimizer, output.square().mean())
    statistics.update(output)
