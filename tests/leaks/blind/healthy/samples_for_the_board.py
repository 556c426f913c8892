"""Now and then a batch is moved to numpy for a picture; the last five pictures are kept."""

from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "clean"}

net = model()
optimizer = sgd(net)
pictures: list = []
for step in steps(60):
    output = net(batch())
    train_step(optimizer, output.square().mean())
    if step % 4 == 0:
        pictures = [*pictures[-4:], output.detach().cpu().clone()]
