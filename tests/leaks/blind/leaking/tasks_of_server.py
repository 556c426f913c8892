"""An asyncio server keeps every finished task, and so its result."""

import asyncio

import torch
from parts import batch, model, steps

EXPECTED = {"verdict": "leak", "holder": "tasks"}

net = model()
tasks = []


async def answer(request):
    await asyncio.sleep(0)
    with torch.no_grad():
        return net(request).softmax(dim=1)  # leaks


async def serve():
    for _ in steps(30):
        task = asyncio.create_task(answer(batch()))
        tasks.append(task)
        await task


asyncio.run(serve())
