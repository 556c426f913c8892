"""Makes the files in this folder: make.py kineto (needs torch), make.py jax (needs jax)."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

FOLDER = Path(__file__).parent


def trace(name: str, with_memory: bool) -> None:
    import torch
    from torch.profiler import ProfilerActivity, profile

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 64))
    optimizer = torch.optim.SGD(model.parameters(), momentum=0.9)
    data = torch.randn(32, 64)
    kept = []
    with profile(activities=[ProfilerActivity.CPU], profile_memory=with_memory) as profiler:
        for _ in range(3):
            model(data).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            kept.append(torch.zeros(1000))
            profiler.step()
    profiler.export_chrome_trace("trace.json")
    text = json.loads(Path("trace.json").read_text())
    text["host_name"] = "trainer"
    Path("trace.json").unlink()
    (FOLDER / name).write_bytes(gzip.compress(json.dumps(text, indent=1).encode(), mtime=0))


def jax_profile() -> None:
    import jax
    import jax.numpy as jnp
    import jax.profiler

    weights = jnp.ones((1000, 10))
    mask = jnp.zeros((64, 64), dtype=jnp.float16)
    layers = [jnp.full((size * 10,), 1.0) for size in range(1, 4)]
    product = jax.jit(lambda a: a @ a.T)(weights)
    jax.profiler.save_device_memory_profile(str(FOLDER / "jax_memory.prof"))
    live = jax.live_arrays()
    print(len(live), "arrays,", sum(array.nbytes for array in live), "bytes")
    del mask, layers, product


if __name__ == "__main__":
    if sys.argv[1] == "jax":
        jax_profile()
    else:
        trace("kineto.json.gz", True)
        trace("kineto_without_memory.json.gz", False)
