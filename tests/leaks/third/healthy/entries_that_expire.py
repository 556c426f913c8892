"""What a server has computed is kept for eight requests; traffic comes in waves."""

import torch
from parts import batch, model, steps

EXPECTED = {"verdict": "clean"}

net = model()
kept = {}


@torch.no_grad()
def answer(number):
    for key in [key for key, (until, _) in kept.items() if until <= number]:
        del kept[key]
    wave = 1 + (number // 15) % 3
    for part in range(wave):
        kept[number, part] = (number + 8, net(batch(rows=8 * wave)))


for number in steps(90):
    answer(number)
