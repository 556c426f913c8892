"""Records a random workload close to its memory limit, and torch's own counters. Needs a GPU.

usage: record.py NAME SEED ALLOC_CONF|- FRACTION PATTERN FOLDER

PATTERN is any of: mixed, small, streams (three more streams and record_stream), pools (user pools
and graph captures).
Writes FOLDER/NAME.pickle.gz and FOLDER/NAME.truth, as the tests of the simulator read them.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import pickle
import random
import sys
from pathlib import Path
from typing import Any

STEPS = 8000


class Workload:
    """Allocations and frees by chance; how much it tries to hold changes every thousand steps."""

    def __init__(self, torch: Any, seed: int, pattern: str, limit_bytes: float) -> None:
        self.torch = torch
        self.chance = random.Random(seed)
        self.pattern = pattern
        self.limit_bytes = limit_bytes
        self.streams = [torch.cuda.current_stream()] + [torch.cuda.Stream() for _ in range(3)]
        self.live: list[tuple[Any, int]] = []
        self.pools: list[tuple[str, Any, list[Any]]] = []
        self.pool_count = 0

    def run(self) -> None:
        hold_bytes = self.limit_bytes
        for step in range(STEPS):
            if step % 1000 == 0:
                hold_bytes = self.chance.choice([0.6, 0.9, 1.0, 1.3]) * self.limit_bytes
            is_full = sum(size for _, size in self.live) > hold_bytes
            draw = self.chance.random()
            if self.live and (draw < 0.30 or is_full):
                self.free(self.chance.choice([3, 40]) if is_full else 1)
            elif draw < 0.3015:
                self.torch.cuda.empty_cache()
            elif "pools" in self.pattern and draw < 0.306:
                self.use_pool()
            else:
                self.allocate()

    def size(self) -> int:
        if "small" in self.pattern:
            return self.chance.randint(1, 1 << 20)
        return int(2 ** self.chance.uniform(0, 28 if self.limit_bytes > 3e9 else 26))

    def empty(self, size: int) -> Any:
        return self.torch.empty(size, dtype=self.torch.uint8, device="cuda")

    def allocate(self) -> None:
        size = self.size()
        uses_streams = "streams" in self.pattern
        stream = self.streams[self.chance.choice([0, 0, 0, 1, 2, 3]) if uses_streams else 0]
        try:
            with self.torch.cuda.stream(stream):
                tensor = self.empty(size)
        except self.torch.OutOfMemoryError:
            return
        if uses_streams and self.chance.random() < 0.35:
            other = self.streams[self.chance.randrange(4)]
            if self.chance.random() < 0.5:
                with self.torch.cuda.stream(other):
                    self.torch.cuda._sleep(
                        self.chance.choice([20_000, 200_000, 2_000_000, 8_000_000])
                    )
            tensor.record_stream(other)
        self.live.append((tensor, size))

    def free(self, count: int) -> None:
        for _ in range(min(count, len(self.live))):
            row = self.chance.randrange(len(self.live))
            self.live[row] = self.live[-1]
            self.live.pop()

    def use_pool(self) -> None:
        draw = self.chance.random()
        if draw < 0.45 or not self.pools:
            self.pool_count += 1
            self.pools.append((f"u{self.pool_count}", self.torch.cuda.MemPool(), []))
        if draw < 0.7:
            self.allocate_in_pool(*self.chance.choice(self.pools))
        elif draw < 0.85:
            self.capture()
        else:
            self.pools.pop(self.chance.randrange(len(self.pools)))
            if self.chance.random() < 0.5:
                self.torch.cuda.empty_cache()

    def allocate_in_pool(self, tag: str, pool: Any, tensors: list[Any]) -> None:
        if tag.startswith("u"):
            self.torch._C._cuda_setMemoryMetadata(tag)
            with self.torch.cuda.use_mem_pool(pool):
                for _ in range(self.chance.randint(1, 8)):
                    with contextlib.suppress(self.torch.OutOfMemoryError):
                        tensors.append(self.empty(self.size()))
            self.torch._C._cuda_setMemoryMetadata("")
        if self.chance.random() < 0.5:
            tensors.clear()

    def capture(self) -> None:
        self.pool_count += 1
        tag = f"g{self.pool_count}"
        graph = self.torch.cuda.CUDAGraph()
        tensors: list[Any] = []
        try:
            with self.torch.cuda.graph(graph):
                self.torch._C._cuda_setMemoryMetadata(tag)
                for _ in range(self.chance.randint(1, 6)):
                    tensor = self.empty(self.size() // 4 + 1).fill_(1)
                    if self.chance.random() < 0.5:
                        tensors.append(tensor)
            self.pools.append((tag, graph, tensors))
        except self.torch.OutOfMemoryError:
            pass
        finally:
            self.torch._C._cuda_setMemoryMetadata("")


def main() -> None:
    name, seed, alloc_conf, fraction, pattern, folder = sys.argv[1:]
    if alloc_conf != "-":
        os.environ["PYTORCH_CUDA_ALLOC_CONF"] = alloc_conf
    import torch

    torch.cuda.memory._record_memory_history(enabled="all", context=None, max_entries=10_000_000)
    torch.cuda.init()
    torch.cuda.set_per_process_memory_fraction(float(fraction))
    total = torch.cuda.mem_get_info()[1]
    Workload(torch, int(seed), pattern, float(fraction) * total).run()
    torch.cuda.synchronize()
    stats = torch.cuda.memory_stats()
    with gzip.open(Path(folder) / f"{name}.pickle.gz", "wb") as file:
        pickle.dump(torch.cuda.memory._snapshot(), file)
    lines = [] if alloc_conf == "-" else [f"alloc_conf {alloc_conf}"]
    lines += [f"memory_fraction {fraction}", f"device_total_bytes {total}"]
    lines += [f"counter {key} {value}" for key, value in stats.items() if isinstance(value, int)]
    (Path(folder) / f"{name}.truth").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
