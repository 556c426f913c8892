"""Jobs of several ranks in other shapes, on CPU tensors with Gloo. With ``odd``, something is.

Started by torchrun: rank_shapes.py SHAPE odd|even
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh

WIDTH = 256
STEPS = 12


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(nn.functional.silu(self.up(x)))


class Attention(nn.Module):
    """Its scores grow with the square of the sequence, whatever the number of tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(1000, WIDTH)
        self.query = nn.Linear(WIDTH, WIDTH)
        self.out = nn.Linear(WIDTH, 1000)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.tokens(ids)
        mixed = torch.softmax(self.query(x) @ x.transpose(-1, -2), -1) @ x  # scores
        return self.out(mixed)


class Vocabulary(nn.Module):
    """One shard of a table that is split over the ranks."""

    def __init__(self, rows: int) -> None:
        super().__init__()
        self.body = Layer()
        self.table = nn.Parameter(torch.randn(rows, WIDTH) * 0.02)  # shard

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x) @ self.table.t()


def adamw(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), foreach=False)


def mesh_of_two(is_odd: bool) -> None:
    """Data by tensor parallel; one replica gets longer sequences, on all of its ranks."""
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import parallel

    size = dist.get_world_size()
    mesh = init_device_mesh("cpu", (2, size // 2), mesh_dim_names=("dp", "tp"))
    model = nn.Sequential(Layer(), Layer())
    plan = {"up": parallel.ColwiseParallel(), "down": parallel.RowwiseParallel()}
    for layer in model:
        parallel.parallelize_module(layer, mesh["tp"], plan)
        fully_shard(layer, mesh=mesh["dp"])
    fully_shard(model, mesh=mesh["dp"])
    optimizer = adamw(model)
    replica = mesh.get_local_rank("dp")
    for step in range(STEPS):
        rows = 3072 if is_odd and replica == 1 and step >= 5 else 1024
        same = torch.Generator().manual_seed(2 * step + replica)
        model(torch.randn(rows, WIDTH, generator=same)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        dist.barrier()


def packed(is_odd: bool) -> None:
    """The same number of tokens everywhere; once, one rank gets them as a single sequence."""
    model = nn.parallel.DistributedDataParallel(Attention())
    optimizer = adamw(model)
    for step in range(STEPS):
        is_long = is_odd and dist.get_rank() == 3 and step == 9
        ids = torch.randint(0, 1000, (1, 2048) if is_long else (4, 512))
        logits = model(ids)
        nn.functional.cross_entropy(logits.flatten(0, 1), ids.flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()
        dist.barrier()


def evaluates(is_odd: bool) -> None:
    """Rank 0 evaluates alone, and keeps all outputs."""
    model = nn.parallel.DistributedDataParallel(nn.Sequential(Layer(), Layer(), Layer()))
    optimizer = adamw(model)
    for step in range(STEPS):
        model(torch.randn(1024, WIDTH)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        if is_odd and dist.get_rank() == 0 and step % 4 == 3:
            with torch.no_grad():
                outputs = [model.module(torch.randn(2048, WIDTH)) for _ in range(20)]
                torch.cat(outputs).mean()  # evaluation
            del outputs
        dist.barrier()


def accumulates(is_odd: bool) -> None:
    """One rank sums up the losses of its micro batches, and so keeps all their graphs."""
    model = nn.Sequential(Layer(), Layer())
    optimizer = adamw(model)
    for step in range(STEPS):
        losses = [torch.zeros(())]
        for _ in range(4):
            loss = model(torch.randn(512, WIDTH)).square().mean()  # accumulates
            if is_odd and dist.get_rank() == 2 and step >= 4:
                losses.append(loss)
            else:
                loss.backward()
        if len(losses) > 1:
            torch.stack(losses).sum().backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()
        optimizer.zero_grad()
        dist.barrier()


def vocabulary(is_odd: bool) -> None:
    """One rank has a larger shard of the vocabulary."""
    init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("tp",))
    model = Vocabulary(14000 if is_odd and dist.get_rank() == 1 else 8000)
    optimizer = adamw(model)
    for _ in range(STEPS):
        model(torch.randn(256, WIDTH)).square().mean().backward()
        for parameter in model.body.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()
        optimizer.zero_grad()
        dist.barrier()


def killed(is_odd: bool) -> None:
    """One rank is killed in the middle of a step."""
    model = nn.parallel.DistributedDataParallel(nn.Sequential(Layer(), Layer()))
    optimizer = adamw(model)
    for step in range(STEPS):
        model(torch.randn(512, WIDTH)).square().mean().backward()
        if is_odd and step == 6:
            if dist.get_rank() == 1:
                # The recorder writes what happened within a second.
                time.sleep(3)
                os.kill(os.getpid(), signal.SIGKILL)
            # The others go on, until they wait for it.
            time.sleep(1)
        optimizer.step()
        optimizer.zero_grad()
        dist.barrier()


SHAPES: dict[str, Callable[[bool], None]] = {
    shape.__name__: shape
    for shape in (mesh_of_two, packed, evaluates, accumulates, vocabulary, killed)
}


def main() -> None:
    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())
    SHAPES[sys.argv[1]](sys.argv[2] == "odd")
    dist.destroy_process_group()


main()
