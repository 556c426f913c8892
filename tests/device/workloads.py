"""The workloads of the device tests: small programs, each using the allocator differently."""

from __future__ import annotations

import threading
from typing import Callable

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own custom
from torch import nn
from torch.utils.checkpoint import checkpoint

WORKLOADS: dict[str, Callable[[], None]] = {}
SETTINGS: dict[str, str] = {
    "expandable_segments": "expandable_segments:True",
    "split_and_roundup": "max_split_size_mb:64,roundup_power2_divisions:4",
}


def workload(function: Callable[[], None]) -> Callable[[], None]:
    WORKLOADS[function.__name__] = function
    return function


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, c = x.shape
        q, k, v = (
            part.view(b, t, self.heads, c // self.heads).transpose(1, 2)
            for part in self.qkv(self.norm1(x)).split(c, dim=2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    """The size of GPT-2 small: 12 layers, width 768."""

    def __init__(self, layers: int = 12, width: int = 768, vocabulary: int = 50257) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(Block(width, width // 64) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.is_checkpointed = False

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.tokens(ids)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.is_checkpointed else block(x)
        return self.head(self.norm(x))


def make_training(layers: int = 12, width: int = 768, vocabulary: int = 50257, length: int = 256):
    torch.manual_seed(0)
    model = Gpt(layers, width, vocabulary).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    ids = torch.randint(0, vocabulary, (1, length + 1), device="cuda")

    def train_step() -> None:
        with torch.autocast("cuda", torch.bfloat16):
            logits = model(ids[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    train_step.model = model
    train_step.ids = ids
    train_step.optimizer = optimizer
    return train_step


def small_training():
    return make_training(layers=4, width=256, vocabulary=5000, length=128)


@workload
def autocast_training() -> None:
    step = small_training()
    for _ in range(10):
        step()


@workload
def checkpointing() -> None:
    step = small_training()
    step.model.is_checkpointed = True
    for _ in range(10):
        step()


@workload
def gradient_accumulation() -> None:
    step = small_training()
    for turn in range(12):
        loss = step.model(step.ids[:, :-1]).float().mean()
        (loss / 4).backward()
        if turn % 4 == 3:
            step.optimizer.step()
            step.optimizer.zero_grad(set_to_none=True)


@workload
def compiled() -> None:
    model = nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256)).cuda()
    run = torch.compile(model)
    for _ in range(5):
        run(torch.randn(64, 256, device="cuda")).sum().backward()


@workload
def cuda_graphs() -> None:
    model = nn.Linear(512, 512).cuda()
    x = torch.randn(64, 512, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            model(x).relu().sum()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = model(x).relu()
        y = (y @ y.t()).sum()
    for _ in range(20):
        graph.replay()
        _ = torch.empty(1 << 20, device="cuda")


@workload
def three_streams() -> None:
    streams = [torch.cuda.Stream() for _ in range(3)]
    for turn in range(60):
        tensor = torch.randn(1 << (10 + turn % 12), device="cuda")
        for stream in streams:
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                part = tensor * 2
                tensor.record_stream(stream)
                part.record_stream(torch.cuda.current_stream())
        del tensor, part
    torch.cuda.synchronize()
    _ = torch.empty(1000, device="cuda")


@workload
def several_threads() -> None:
    def work(seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        kept = []
        for _ in range(400):
            size = int(torch.randint(1, 1 << 21, (1,), generator=generator))
            kept.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
            if len(kept) > 8:
                kept.pop(0)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@workload
def expandable_segments() -> None:
    step = small_training()
    kept = []
    for turn in range(10):
        step()
        kept.append(torch.empty((turn + 1) << 21, dtype=torch.uint8, device="cuda"))
        if turn % 3 == 2:
            kept.clear()
            torch.cuda.empty_cache()


@workload
def split_and_roundup() -> None:
    kept = []
    for turn in range(200):
        kept.append(torch.empty(700_001 * (turn % 37 + 1), dtype=torch.uint8, device="cuda"))
        if len(kept) > 12:
            kept.pop(turn % 12)


@workload
def caught_oom() -> None:
    torch.cuda.set_per_process_memory_fraction(0.02)
    kept = []
    for _ in range(3):
        try:
            while True:
                kept.append(torch.empty(50 << 20, dtype=torch.uint8, device="cuda"))
        except torch.OutOfMemoryError:  # noqa: PERF203 (the error is the point)
            kept = kept[::2]
    _ = torch.empty(1 << 20, device="cuda")


@workload
def empty_cache_in_the_loop() -> None:
    step = small_training()
    for _ in range(8):
        step()
        torch.cuda.empty_cache()


@workload
def joined_late() -> None:
    """Its first half runs before the recording starts; see exact.py."""
    autocast_training()


if __name__ == "__main__":
    print("\n".join(WORKLOADS))
