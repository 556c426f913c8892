"""Programs of several processes."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy

from .reporter import Reporter
from .small_net import Net, batch, train


def _start() -> None:
    if not dist.is_initialized():
        dist.init_process_group("gloo")


def _ddp(report: Reporter, **options: Any) -> None:
    _start()
    model = nn.parallel.DistributedDataParallel(Net(), **options)
    optimizer = torch.optim.AdamW(model.parameters())
    train(report, model, optimizer, steps=4)


def ddp(report: Reporter) -> None:
    _ddp(report)


def ddp_bucket_view(report: Reporter) -> None:
    _start()
    model = nn.parallel.DistributedDataParallel(Net(), gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(model.parameters())
    views: list[Any] = []
    for _ in range(4):
        ids, labels = batch()
        cross_entropy(model(ids), labels).backward()
        report([model], [optimizer], [ids, labels], gradients=views)
        optimizer.step()
        # The buckets stay when gradients are freed.
        views = [p.grad for p in model.parameters()]
        optimizer.zero_grad()
        report([model], [optimizer], [ids, labels], gradients=views)


def ddp_static_graph(report: Reporter) -> None:
    _ddp(report, static_graph=True)


def ddp_accumulation(report: Reporter) -> None:
    _start()
    model = nn.parallel.DistributedDataParallel(Net(), gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(model.parameters())
    views: list[Any] = []
    for step in range(8):
        ids, labels = batch()
        is_last = step % 2 == 1
        with contextlib.nullcontext() if is_last else model.no_sync():
            cross_entropy(model(ids), labels).backward()
        # Without a reduction, gradients are allocated outside the buckets.
        if step > 3:
            report([model], [optimizer], [ids, labels], gradients=views)
        if is_last:
            views = [p.grad for p in model.parameters()]
            optimizer.step()
            optimizer.zero_grad()
            if step > 3:
                report([model], [optimizer], [ids, labels], gradients=views)


def zero_redundancy(report: Reporter) -> None:
    from torch.distributed.optim import ZeroRedundancyOptimizer

    _start()
    model = nn.parallel.DistributedDataParallel(Net())
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW)
    for _ in range(4):
        ids, labels = batch()
        cross_entropy(model(ids), labels).backward()
        report([model], [optimizer.optim], [ids, labels])
        optimizer.step()
        report([model], [optimizer.optim], [ids, labels])
        optimizer.zero_grad()
        report([model], [optimizer.optim], [ids, labels])


def _fsdp2(report: Reporter, reshard: bool, mixed: bool = False) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    _start()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32) if mixed else None
    options = {"mp_policy": policy} if policy else {}
    model = Net(norm=nn.LayerNorm)
    for block in model.blocks:
        fully_shard(block, mesh=mesh, reshard_after_forward=reshard, **options)
    fully_shard(model, mesh=mesh, reshard_after_forward=reshard, **options)
    optimizer = torch.optim.AdamW(model.parameters())
    train(report, model, optimizer, steps=4)


def fsdp2(report: Reporter) -> None:
    _fsdp2(report, reshard=True)


def fsdp2_not_resharded(report: Reporter) -> None:
    _fsdp2(report, reshard=False)


def fsdp2_mixed(report: Reporter) -> None:
    _fsdp2(report, reshard=True, mixed=True)


def _fsdp1(report: Reporter, use_orig_params: bool) -> None:
    from torch.distributed.fsdp import FullyShardedDataParallel
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy

    _start()
    model = FullyShardedDataParallel(
        Net(),
        auto_wrap_policy=ModuleWrapPolicy({nn.Sequential}),
        use_orig_params=use_orig_params,
        device_id=torch.device("cpu"),
    )
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(4):
        ids, labels = batch()
        cross_entropy(model(ids), labels).backward()
        report([model], [optimizer], [ids, labels])
        optimizer.step()
        # The flat gradient stays when its views are freed.
        views = [p.grad for p in model.parameters() if p.grad is not None and use_orig_params]
        optimizer.zero_grad()
        report([model], [optimizer], [ids, labels], gradients=views)
        del views


def fsdp1(report: Reporter) -> None:
    _fsdp1(report, use_orig_params=False)


def fsdp1_orig_params(report: Reporter) -> None:
    _fsdp1(report, use_orig_params=True)
