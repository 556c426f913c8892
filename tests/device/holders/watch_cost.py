"""On a GPU: what watching for leaks adds to a training step, and whether a leak's holder is found.

python tests/device/holders/watch_cost.py [SECONDS] prints one line of JSON; about 30 s. Steps with
and without the watch take turns in one process, in blocks of 20 that are compared pair by pair.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import gpumemprof
import torch

BLOCK = 20


def main() -> int:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 20.0
    device = "cuda" if torch.cuda.is_available() else "cpu"
    width = 1024 if device == "cuda" else 64
    layers = [torch.nn.TransformerEncoderLayer(width, 8, batch_first=True) for _ in range(6)]
    model = torch.nn.Sequential(*layers).to(device)
    optimizer = torch.optim.AdamW(model.parameters())
    batch = torch.randn(8, 128, width, device=device)
    losses: list[Any] = []

    def step(keeps: bool = False) -> None:
        loss = model(batch).square().mean()
        loss.backward()
        if keeps:
            losses.append(loss.detach() * torch.ones(1024, device=device))
        optimizer.step()
        optimizer.zero_grad()

    def block() -> float:
        begin = time.perf_counter()
        for _ in range(BLOCK):
            step()
        if device == "cuda":
            torch.cuda.synchronize()
        return (time.perf_counter() - begin) / BLOCK

    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.gmp"
        with gpumemprof.record(path, cpu=device == "cpu"):
            for _ in range(5):
                step()
            ratios, times = [], []
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                without = block()
                with gpumemprof.watch_leaks():
                    watched = block()
                again = block()
                times.append(without)
                ratios.append(watched / ((without + again) / 2))
            with gpumemprof.watch_leaks() as watch:
                for _ in range(60):
                    step(keeps=True)
    row = {
        "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
        "torch": str(torch.__version__),
        "step_ms": round(1e3 * statistics.median(times), 3),
        "watch_percent": round(100 * (statistics.median(ratios) - 1), 3),
        "pairs": len(ratios),
        "leaks": [
            {
                "where": leak.where,
                "held_by": leak.held_by,
                "search_cpu_s": round(leak.holders.seconds, 3),
            }
            for leak in watch.leaks
        ],
    }
    print(json.dumps(row, ensure_ascii=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())
