"""An asyncio server handles several requests at once and forgets them."""

import asyncio

import torch
from parts import batch, model, steps

EXPECTED = {"verdict": "clean"}

net = model()


async def answer(request):
    with torch.no_grad():
        hidden = net(request)
    await asyncio.sleep(0)
    return hidden.softmax(dim=1).argmax(dim=1).tolist()


async def serve():
    for _ in steps(15):
        await asyncio.gather(*(answer(batch()) for _ in range(4)))


asyncio.run(serve())
