"""Programs that differ in the training loop: data, losses, exceptions, evaluation."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.checkpoint import checkpoint

from .reporter import Reporter
from .small_net import BATCH, WIDTH, WORDS, Net, batch, train


def accumulation(report: Reporter) -> None:
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(9):
        ids, labels = batch()
        (cross_entropy(model(ids), labels) / 3).backward()
        report([model], [optimizer], [ids, labels])
        if step % 3 == 2:
            optimizer.step()
            optimizer.zero_grad()
            report([model], [optimizer], [ids, labels])


class Examples(torch.utils.data.Dataset[Any]):
    def __len__(self) -> int:
        return 4 * BATCH

    def __getitem__(self, index: int) -> tuple[Any, int]:
        return torch.randn(3, 16, 16), index % 10


def loader_with_workers(report: Reporter) -> None:
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Flatten(), nn.Linear(3136, 10)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    loader = torch.utils.data.DataLoader(Examples(), batch_size=BATCH, num_workers=2)
    for images, labels in loader:
        # Batches from workers are in shared memory, which does not come from the allocator.
        cross_entropy(model(images), labels).backward()
        report([model], [optimizer])
        optimizer.step()
        optimizer.zero_grad()
        report([model], [optimizer])


def loader_without_workers(report: Reporter) -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(768, 256), nn.ReLU(), nn.Linear(256, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    loader = torch.utils.data.DataLoader(Examples(), batch_size=BATCH)
    for images, labels in loader:
        cross_entropy(model(images), labels).backward()
        report([model], [optimizer], [images, labels])
        optimizer.step()
        optimizer.zero_grad()
        report([model], [optimizer], [images, labels])


def compiled(report: Reporter) -> None:
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters())
    train(report, model, optimizer, steps=4, forward=torch.compile(model, backend="aot_eager"))


def compiled_inductor(report: Reporter) -> None:
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters())
    train(report, model, optimizer, steps=4, forward=torch.compile(model))


def autocast(report: Reporter) -> None:
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        ids, labels = batch()
        with torch.autocast("cpu", torch.bfloat16):
            loss = cross_entropy(model(ids), labels)
        loss.backward()
        report([model], [optimizer], [ids, labels])
        optimizer.step()
        optimizer.zero_grad()
        report([model], [optimizer], [ids, labels])


def _checkpointed(report: Reporter, use_reentrant: bool) -> None:
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters())

    def forward(ids: Any) -> Any:
        x = model.embed(ids)
        for block in model.blocks:
            x = x + checkpoint(block, x, use_reentrant=use_reentrant)
        return model.head(model.norm(x))

    train(report, model, optimizer, forward=forward)


def checkpointed(report: Reporter) -> None:
    _checkpointed(report, use_reentrant=False)


def checkpointed_reentrant(report: Reporter) -> None:
    _checkpointed(report, use_reentrant=True)


def exception_in_a_step(report: Reporter) -> None:
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters())
    train(report, model, optimizer, steps=2)

    class BrokenError(Exception):
        pass

    def breaks(*_: Any) -> None:
        raise BrokenError

    handle = model.blocks[1].register_forward_hook(breaks)
    with contextlib.suppress(BrokenError):
        train(report, model, optimizer, steps=1)
    handle.remove()
    handle = model.blocks[1][0].weight.register_hook(breaks)
    with contextlib.suppress(BrokenError):
        train(report, model, optimizer, steps=1)
    handle.remove()
    optimizer.zero_grad()
    train(report, model, optimizer, steps=2)


def two_losses(report: Reporter) -> None:
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        ids, labels = batch()
        scores = model(ids)
        cross_entropy(scores, labels).backward(retain_graph=True)
        scores.square().mean().backward()
        del scores
        report([model], [optimizer], [ids, labels])
        optimizer.step()
        optimizer.zero_grad()
        report([model], [optimizer], [ids, labels])


def gradient_penalty(report: Reporter) -> None:
    model = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.Tanh(), nn.Linear(2 * WIDTH, 1))
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(3):
        x = torch.randn(BATCH, WIDTH, requires_grad=True)
        (slope,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
        (slope.norm(dim=1) - 1).square().mean().backward()
        del slope
        x.grad = None
        report([model], [optimizer], [x])
        optimizer.step()
        optimizer.zero_grad()
        report([model], [optimizer], [x])


def clipped(report: Reporter) -> None:
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        ids, labels = batch()
        cross_entropy(model(ids), labels).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        report([model], [optimizer], [ids, labels])
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        report([model], [optimizer], [ids, labels])


def evaluated_between(report: Reporter) -> None:
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        train(report, model, optimizer, steps=1)
        model.eval()
        outputs = []
        with torch.no_grad():
            for _ in range(3):
                ids, labels = batch()
                outputs.append(model(ids))
        report([model], [optimizer], [ids, labels])
        del outputs, ids, labels
        model.train()


def data_on_the_device(report: Reporter) -> None:
    ids, labels = torch.randint(0, WORDS, (2000,)), torch.randint(0, WORDS, (2000,))
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(3):
        part = slice(step * BATCH, (step + 1) * BATCH)
        cross_entropy(model(ids[part]), labels[part]).backward()
        report([model], [optimizer], [ids, labels])
        optimizer.step()
        optimizer.zero_grad()
        report([model], [optimizer], [ids, labels])
