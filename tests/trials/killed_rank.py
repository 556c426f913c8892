"""One of four ranks is killed at a random moment: `ranks` names it, or names it among others.

usage: python tests/trials/killed_rank.py [--jobs N] [--seed N]

The ranks train with gloo under torchrun, which ends the others. Exits with 1 if a rank that was not
killed is named as the first that failed, or the one that was killed is not among those named.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

RANKS = 4
PROGRAM = """
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(256, 256))
optimizer = torch.optim.AdamW(model.parameters())
with open(f"pid{dist.get_rank()}", "w") as file: file.write(str(os.getpid()))
while True:
    model(torch.randn(64, 256)).square().mean().backward()
    optimizer.step(); optimizer.zero_grad()
    dist.barrier()
"""


def run(folder: Path, chance: random.Random) -> tuple[int, dict]:
    """The rank that was killed, and what is reported of the job."""
    (folder / "train.py").write_text(PROGRAM)
    recordings = folder / "recordings"
    environment = {**os.environ, "GPUMEMPROF": "1", "GPUMEMPROF_OUTPUT": f"{recordings}/run.gmp"}
    words = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(RANKS)]
    words += ["--standalone", "train.py"]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(
        words, cwd=folder, env={**environment, "OMP_NUM_THREADS": "1"}, stdout=quiet, stderr=quiet
    ) as job:
        pids = [folder / f"pid{rank}" for rank in range(RANKS)]
        while not all(path.exists() and path.read_text() for path in pids):
            if job.poll() is not None:
                raise SystemExit("the job ended before a rank was killed")
            time.sleep(0.05)
        time.sleep(chance.random() * 5)
        rank = chance.randrange(RANKS)
        os.kill(int(pids[rank].read_text()), signal.SIGKILL)
    said = subprocess.run(
        [sys.executable, "-m", "gpumemprof", "ranks", "--json", str(recordings)],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    (report,) = json.loads(said.stdout)["jobs"]
    return rank, report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    chance = random.Random(arguments.seed)
    outcomes: Counter[str] = Counter()
    for number in range(arguments.jobs):
        with tempfile.TemporaryDirectory() as made:
            rank, report = run(Path(made), chance)
        failures = report["failures"] or {}
        first = failures.get("first") or {}
        among = [each["rank"] for each in failures.get("candidates") or []]
        if first.get("rank") == rank and not among:
            outcomes["right"] += 1
        elif rank in among:
            outcomes[f"one of {len(among)}"] += 1
        else:
            outcomes["wrong" if first or among else "not named"] += 1
            print(f"job {number}: rank {rank} was killed, said is {failures}", file=sys.stderr)
    print(f"{arguments.jobs} jobs: {', '.join(f'{of} {what}' for what, of in outcomes.items())}")
    sys.exit(1 if outcomes["wrong"] or outcomes["not named"] else 0)


if __name__ == "__main__":
    main()
