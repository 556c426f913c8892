"""Writes fuzz/seeds: recordings small enough that a fuzzer can try every verb on thousands of them.

Snapshots are cut from recorded ones; .gmp files are recorded here, so this needs torch and an
installed gpumemprof.
"""

from __future__ import annotations

import gzip
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SEEDS = ROOT / "fuzz" / "seeds"
DATA = ROOT / "tests" / "data"

MOST_FRAMES = 8

# (source, name, first event, number of events)
CUTS = (
    ("snapshots/mlp_b64_fp32_adam", "mlp", 0, 207),
    ("snapshots/cudagraph", "cudagraph", 0, 219),
    ("snapshots/unet_b4_fp32_adamw", "unet_start", 0, 200),
    ("snapshots/clean_training", "steps_of_the_middle", 3000, 200),
    ("snapshots/gpt2_b4_fp32_adamw_expandable", "expandable", 0, 180),
    ("sim/oom_true_shortage", "shortage", 0, 169),
    ("sources/lstm", "lstm", 0, 200),
    ("sources/joined_late", "joined_late", 300, 200),
)

PROGRAMS = {
    "training": """
import torch
torch.manual_seed(0)
class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(32, 64)
        self.down = torch.nn.Linear(64, 32)
    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(x)))
model = torch.nn.Sequential(Block(), Block(), torch.nn.LayerNorm(32), torch.nn.Linear(32, 8))
optimizer = torch.optim.AdamW(model.parameters())
for step in range(3):
    loss = torch.nn.functional.cross_entropy(model(torch.randn(16, 32)), torch.randint(8, (16,)))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
""",
    "inference": """
import gpumemprof, torch
cache = []
with torch.no_grad(), gpumemprof.tag("kv_cache"):
    for step in range(12):
        cache.append(torch.randn(4, 16) @ torch.randn(16, 16))
print(sum(float(row.sum()) for row in cache))
""",
}


def own(value: Any) -> Any:
    """The same data with no list or dict in two places: the fuzzer's reader keeps no such links."""
    if isinstance(value, dict):
        return {key: own(item) for key, item in value.items()}
    if isinstance(value, list):
        return [own(item) for item in value]
    return value


def cut(source: str, first: int, count: int) -> Any:
    snapshot = pickle.loads(gzip.decompress((DATA / f"{source}.pickle.gz").read_bytes()))
    traces = [events[first : first + count] for events in snapshot["device_traces"]]
    for events in traces:
        for event in events:
            event["frames"] = event.get("frames", [])[:MOST_FRAMES]
    snapshot["device_traces"] = traces
    snapshot["segments"] = snapshot["segments"][:40]
    for segment in snapshot["segments"]:
        segment["blocks"] = segment["blocks"][:60]
        for block in segment["blocks"]:
            block["frames"] = block.get("frames", [])[:MOST_FRAMES]
    annotations = snapshot.get("external_annotations")
    if annotations:
        snapshot["external_annotations"] = annotations[:20]
    return own(snapshot)


def main() -> None:
    SEEDS.mkdir(exist_ok=True)
    for source, name, first, count in CUTS:
        (SEEDS / f"{name}.pickle").write_bytes(pickle.dumps(cut(source, first, count), protocol=4))
    (SEEDS / "everything.gmp").write_bytes((DATA / "traces" / "everything.gmp").read_bytes())
    with tempfile.TemporaryDirectory() as folder:
        for name, program in PROGRAMS.items():
            script = Path(folder) / "train.py"
            script.write_text(program)
            words = ["run", "-f", "-o", f"{SEEDS}/{name}.gmp", "train.py"]
            subprocess.run([sys.executable, "-m", "gpumemprof", *words], cwd=folder, check=True)
    for name in ("mlp", "cudagraph", "lstm"):
        words = ["convert", f"{SEEDS}/{name}.pickle", f"{SEEDS}/{name}.gmp", "--to", "gmp", "-f"]
        subprocess.run([sys.executable, "-m", "gpumemprof", *words], check=True)


if __name__ == "__main__":
    main()
