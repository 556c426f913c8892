"""A training script that profiles itself: steps, phases, a monitored timeline, a summary.

Usage: python examples/train_with_profiler.py [STEPS]; uses the GPU if there is one, otherwise CPU
tensors.
"""

from __future__ import annotations

import sys

import torch
from gpumemprof import CPUMemoryProfiler, GPUMemoryProfiler


def main(steps: int) -> None:
    on_gpu = torch.cuda.is_available()
    device = torch.device("cuda" if on_gpu else "cpu")
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(512, 2048), torch.nn.GELU(), torch.nn.Linear(2048, 512)
    )

    with GPUMemoryProfiler() if on_gpu else CPUMemoryProfiler() as profiler:
        with profiler.profile_context("model to device"):
            model.to(device)
        optimizer = torch.optim.AdamW(model.parameters())
        profiler.start_monitoring(interval=0.01)

        def train_step(batch: torch.Tensor) -> None:
            with profiler.profile_context("forward"):
                loss = (model(batch) - batch).square().mean()
            with profiler.profile_context("backward"):
                loss.backward()
            with profiler.profile_context("optimizer"):
                optimizer.step()
                optimizer.zero_grad()

        for _ in range(steps):
            batch = torch.randn(256, 512, device=device)
            profiler.profile_function(train_step, batch)

    summary = profiler.get_summary()
    print(summary)
    highest = max(snapshot.allocated_memory for snapshot in profiler.snapshots)
    print(f"monitored: {len(profiler.snapshots)} snapshots, at most {highest / 2**20:.1f} MiB")
    worst = max(profiler.results, key=lambda result: result.peak_memory_usage())
    print(f"the peak was in {worst.function_name}:\n{worst}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
