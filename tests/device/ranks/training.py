"""A rank that trains on cuda:0: ``training.py BACKEND SECONDS [FIGURES]``, started by torchrun.

Writes what it measured itself to the file FIGURES-RANK: what the card's use grew by while its
communicator was made and used for the first time, and the processor time and the seconds of a step.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn


def used_bytes() -> int:
    torch.cuda.synchronize()
    free, total = torch.cuda.mem_get_info(0)
    return total - free - torch.cuda.memory_reserved(0)


def talk(backend: str) -> None:
    """The first call of each kind, in which NCCL makes its buffers."""
    world = dist.get_world_size()
    tensor = torch.ones(1 << 20, device="cuda")
    dist.all_reduce(tensor)
    dist.broadcast(tensor, 0)
    if backend == "nccl":
        dist.all_gather_into_tensor(torch.empty(world << 20, device="cuda"), tensor)
        dist.reduce_scatter_tensor(
            torch.empty(1 << 20, device="cuda"), torch.ones(world << 20, device="cuda")
        )
    torch.cuda.synchronize()


def make_model() -> nn.Module:
    layers: list[nn.Module] = []
    for _ in range(6):
        layers += [nn.Linear(2048, 2048), nn.GELU()]
    return nn.Sequential(*layers).cuda()


def train(model: nn.Module, seconds: float) -> dict[str, Any]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    steps, end, start_steps = 0, time.monotonic() + seconds, 20
    begin = busy = 0.0
    while time.monotonic() < end or steps <= start_steps:
        if steps == start_steps:
            torch.cuda.synchronize()
            begin, busy = time.perf_counter(), time.process_time()
        loss = model(torch.randn(64, 2048, device="cuda")).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        steps += 1
        if steps % 20 == 0:
            # Ranks do not see the same clock: all stop with the first.
            late = torch.tensor([float(time.monotonic() >= end)], device="cuda")
            dist.all_reduce(late)
            if late.item() > 0 and steps > start_steps:
                break
    torch.cuda.synchronize()
    timed = max(steps - start_steps, 1)
    return {
        "steps": steps,
        "step_ms": 1000 * (time.perf_counter() - begin) / timed,
        "step_cpu_ms": 1000 * (time.process_time() - busy) / timed,
    }


def main() -> None:
    backend, seconds = sys.argv[1], float(sys.argv[2])
    torch.cuda.set_device(0)
    torch.ones(1, device="cuda")
    before = used_bytes()
    dist.init_process_group(backend)
    talk(backend)
    figures: dict[str, Any] = {"outside_growth_bytes": used_bytes() - before}
    model = nn.parallel.DistributedDataParallel(make_model(), device_ids=[0])
    figures.update(train(model, seconds))
    figures["torch"] = torch.__version__
    figures["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
    dist.destroy_process_group()
    if len(sys.argv) > 3:
        Path(f"{sys.argv[3]}-{os.environ['RANK']}").write_text(json.dumps(figures))


if __name__ == "__main__":
    main()
