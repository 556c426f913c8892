"""A list that belongs to a class outlives each of its objects."""

from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "leak", "holder": "Recorder.seen"}


class Recorder:
    seen = []

    def note(self, output):
        self.seen.append(output.detach().clone())  # leaks


net = model()
optimizer = sgd(net)
for _ in steps():
    output = net(batch())
    train_step(optimizer, output.square().mean())
    Recorder().note(output)
