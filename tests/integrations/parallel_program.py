"""A program of several ranks: on CPU tensors with Gloo, or on CUDA tensors, with the same tensors.

Linear layers have no bias, and the optimizer no foreach implementation: the CPU and a GPU then
allocate the same tensors, and cuBLAS needs no second workspace.
"""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.utils._python_dispatch import TorchDispatchMode

WIDTH = 512
LAYERS = 6


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH, bias=False)
        self.up = nn.Linear(WIDTH, 4 * WIDTH, bias=False)
        self.down = nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


class Settled(TorchDispatchMode):
    """Gloo's threads drop what they have finished with a little later: wait for that."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        time.sleep(0.001)
        return func(*args, **(kwargs or {}))


def data_parallel(model: nn.Module, device: torch.device) -> nn.Module:
    return nn.parallel.DistributedDataParallel(model, bucket_cap_mb=8)


def fully_sharded(model: nn.Module, device: torch.device) -> nn.Module:
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    for layer in model:
        fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def tensor_parallel(model: nn.Module, device: torch.device) -> nn.Module:
    from torch.distributed.tensor import parallel

    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    for layer in model:
        plan = {"up": parallel.ColwiseParallel(), "down": parallel.RowwiseParallel()}
        parallel.parallelize_module(layer, mesh, plan)
    return model


def main() -> None:
    kinds = {"ddp": data_parallel, "fsdp2": fully_sharded, "tp": tensor_parallel}
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=kinds)
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    device = torch.device(options.device)
    if device.type == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("nccl")
    else:
        Settled().__enter__()
        dist.init_process_group("gloo")
    model = kinds[options.kind](nn.Sequential(*(Block() for _ in range(LAYERS))).to(device), device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, foreach=False)
    for _ in range(3):
        batch = torch.randn(2, 64, WIDTH, device=device)
        model(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    dist.destroy_process_group()


main()
