"""A discriminator sees old images from a pool of sixteen, half of the time."""

import random

import torch
from parts import DEVICE, batch, model, sgd, steps

EXPECTED = {"verdict": "clean"}

draws = random.Random(5)
generator, discriminator = model(), model()
generator_optimizer, discriminator_optimizer = sgd(generator), sgd(discriminator)
pool = []


def from_pool(image):
    if len(pool) < 16:
        pool.append(image)
        return image
    if draws.random() < 0.5:
        place = draws.randrange(len(pool))
        old, pool[place] = pool[place], image
        return old
    return image


for _ in steps(60):
    image = generator(batch())
    discriminator(image).mean().backward()
    generator_optimizer.step()
    discriminator_optimizer.zero_grad()
    seen = from_pool(image.detach())
    loss = discriminator(seen).mean() - discriminator(torch.randn(32, 64, device=DEVICE)).mean()
    loss.backward()
    discriminator_optimizer.step()
    discriminator_optimizer.zero_grad()
    generator_optimizer.zero_grad()
