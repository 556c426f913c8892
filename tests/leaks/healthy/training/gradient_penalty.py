"""A gradient penalty needs the graph of gradients, which is freed again."""

import torch
from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "clean"}

net = model()
optimizer = sgd(net)
for _ in steps(20):
    examples = batch().requires_grad_()
    score = net(examples).sum()
    (gradient,) = torch.autograd.grad(score, examples, create_graph=True)
    train_step(optimizer, (gradient.norm(dim=1) - 1).square().mean())
