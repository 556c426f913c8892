"""A teacher without gradients."""

import torch
from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "clean"}

teacher, student = model().eval(), model()
optimizer = sgd(student)
for _ in steps(24):
    examples = batch()
    with torch.no_grad():
        goal = teacher(examples)
    train_step(optimizer, (student(examples) - goal).square().mean())
