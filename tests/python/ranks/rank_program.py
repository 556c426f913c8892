"""A training program of several ranks, on CPU tensors with Gloo; its arguments say what is odd.

Started by torchrun. Each kind of parallelism is as small as it can be while each rank still holds
a few MiB, so that what is odd stands out as it does in a large job.
"""

from __future__ import annotations

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh

WIDTH = 256
BATCH = 1024


class Block(nn.Module):
    def __init__(self, width: int = WIDTH) -> None:
        super().__init__()
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(nn.functional.gelu(self.up(x)))  # block


class Experts(nn.Module):
    """Each rank has one expert, and takes the tokens of all ranks that are routed to it."""

    def __init__(self, overloaded: int) -> None:
        super().__init__()
        self.expert = Block()
        self.overloaded = overloaded

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        size = dist.get_world_size()
        gathered = [torch.empty_like(x) for _ in range(size)]
        dist.all_gather(gathered, x)
        tokens = torch.cat(gathered)
        number = torch.arange(len(tokens))
        route = number % size
        if self.overloaded >= 0:
            route = torch.where(number % 16 < 10, self.overloaded, route)
        return self.expert(tokens[route == dist.get_rank()])


def make_model(options: argparse.Namespace) -> nn.Module:
    size = dist.get_world_size()
    if options.kind == "ddp":
        return nn.parallel.DistributedDataParallel(nn.Sequential(Block(), Block()))
    if options.kind == "fsdp2":
        from torch.distributed.fsdp import fully_shard

        model = nn.Sequential(Block(), Block())
        for layer in model:
            fully_shard(layer, mesh=init_device_mesh("cpu", (size,), mesh_dim_names=("fsdp",)))
        return fully_shard(model)
    if options.kind == "tp":
        from torch.distributed.tensor import parallel

        mesh = init_device_mesh("cpu", (size,), mesh_dim_names=("tp",))
        model = nn.Sequential(Block(), Block())
        plan = {"up": parallel.ColwiseParallel(), "down": parallel.RowwiseParallel()}
        for layer in model:
            parallel.parallelize_module(layer, mesh, plan)
        return model
    if options.kind == "pipeline":
        # Two stages, of which the first has three times the layers; the rest is data parallel.
        names = ("pp", "dp") if options.mesh else None
        mesh = init_device_mesh("cpu", (2, size // 2), mesh_dim_names=names)
        stage = mesh.get_coordinate()[0]
        return nn.Sequential(*(Block() for _ in range(6 if stage == 0 else 2)))
    init_device_mesh("cpu", (size,), mesh_dim_names=("ep",))
    return Experts(options.overloaded)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=["ddp", "fsdp2", "tp", "pipeline", "moe"])
    parser.add_argument("--mesh", action="store_true")
    parser.add_argument("--overloaded", type=int, default=-1)
    parser.add_argument("--longer", type=int, default=-1)
    parser.add_argument("--leaks", type=int, default=-1)
    parser.add_argument("--raises", type=int, default=-1)
    parser.add_argument("--steps", type=int, default=12)
    options = parser.parse_args()
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    rank = dist.get_rank()
    model = make_model(options)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    kept = []
    for step in range(options.steps):
        rows = 3 * BATCH if rank == options.longer and step >= 6 else BATCH
        batch = torch.randn(rows, WIDTH)
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if rank == options.leaks:
            kept.append(torch.ones(1 << 18))  # leaks
        if rank == options.raises and step == 7:
            raise ValueError("odd data")  # raises
        dist.barrier()
    dist.destroy_process_group()


main()
