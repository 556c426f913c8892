"""What summaries of a rank cost its training, on CPU tensors: `summary_cost.py [--pairs N]`.

The same training runs as a rank, by turns with a summary every second, sixty times as often as
usual, and with none. What its thread takes for a step is processor time, so that waiting does not
count. A process beside it writes summaries, so only what two processors share can differ. Prints
the difference with its 95 % interval, and a sixtieth of it: the cost at the usual pace.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAM = """
import json, sys, time
import torch

torch.set_num_threads(1)
net = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(12)])
optimizer = torch.optim.AdamW(net.parameters())
data = torch.randn(64, 256)
times = []
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    begin = time.thread_time()
    net(data).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    times.append(time.thread_time() - begin)
times = times[len(times) // 5 :]
print(json.dumps({"ms": 1000 * sum(times) / len(times), "steps": len(times)}))
"""
WAYS = {"with": {"GPUMEMPROF_SUMMARY_SECONDS": "1"}, "without": {"GPUMEMPROF_SUMMARY": "0"}}
USUAL_SECONDS = 60
# Two-sided 95 % quantiles of Student's t, by pairs; smaller ones for more pairs are not needed.
STUDENT = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57, 8: 2.36, 10: 2.26}


def step_ms(folder: Path, way: str, seconds: float, number: int) -> float:
    recording = folder / f"{way}-{number}.gmp"
    rank = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "gpumemprof", "run", "--cpu", "-o", str(recording),
         str(folder / "train.py"), str(seconds)],
        capture_output=True, text=True, env={**os.environ, **rank, **WAYS[way]}, cwd=folder,
    )  # fmt: skip
    if done.returncode != 0:
        raise SystemExit(f"{way}: {done.stderr[-800:]}")
    summaries = list(folder.glob(f"{way}-{number}*.summary.jsonl"))
    if bool(summaries) != (way == "with"):
        raise SystemExit(f"{way}: {len(summaries)} summaries")
    return float(json.loads(done.stdout.splitlines()[0])["ms"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=6)
    options = parser.parse_args()
    changes = []
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        (folder / "train.py").write_text(PROGRAM)
        for number in range(options.pairs):
            order = ("with", "without") if number % 2 else ("without", "with")
            found = {way: step_ms(folder, way, options.seconds, number) for way in order}
            changes.append(100 * (found["with"] / found["without"] - 1))
    mean = statistics.mean(changes)
    quantile = STUDENT[max(known for known in STUDENT if known <= max(2, len(changes)))]
    spread = quantile * statistics.stdev(changes) / len(changes) ** 0.5
    print(f"a summary every second: {mean:+.2f} % ± {spread:.2f} % of a step")
    usual = f"{mean / USUAL_SECONDS:+.3f} % ± {spread / USUAL_SECONDS:.3f} %"
    print(f"at the usual pace of one in {USUAL_SECONDS} s: {usual} (target: 0.1 %)")


if __name__ == "__main__":
    main()
