"""Two backwards in each step; perturbations are kept in between."""

import torch
from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "clean"}

net = model()
optimizer = sgd(net)
for _ in steps(20):
    examples = batch()
    net(examples).square().mean().backward()
    with torch.no_grad():
        moves = [0.01 * weight.grad for weight in net.parameters()]
        for weight, move in zip(net.parameters(), moves):
            weight += move
    optimizer.zero_grad()
    train_step(optimizer, net(examples).square().mean())
    with torch.no_grad():
        for weight, move in zip(net.parameters(), moves):
            weight -= move
