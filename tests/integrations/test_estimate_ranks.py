"""Ranks that are predicted equal real ranks, which exchange CPU tensors through Gloo.

A CPU has no blocks of 512 bytes and no cuBLAS, so the bytes that the program requested are
compared, with cuBLAS told to do without a workspace. Gloo copies what it reduces and scatters,
where NCCL allocates nothing in PyTorch's pool: what a collective of torch.distributed allocates
within its own call, or in Gloo's threads, is left out of the real run.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import gpumemprof
import pyarrow
import pytest

PROGRAM = Path(__file__).with_name("parallel_program.py")
COLLECTIVES = "torch/distributed/distributed_c10d.py"
# Between a call of torch and its kernels, since the program has a dispatch mode.
BETWEEN = ("torch/_ops.py", "torch/_compile.py", "torch/_dynamo/eval_frame.py", PROGRAM.name)
MOST_RUNS = 3
ENVIRONMENT = {**os.environ, "CUBLAS_WORKSPACE_CONFIG": ":0:0", "OMP_NUM_THREADS": "1"}


def gpumemprof_command(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "gpumemprof", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        env=ENVIRONMENT,
    )
    assert done.returncode == 0, done.stderr
    return done


def is_of_backend(recording: gpumemprof.Recording, row: dict[str, Any]) -> bool:
    """Made in a collective, or in a thread of Gloo's: neither in Python nor in backward."""
    frames = [] if row["stack"] is None else recording.stack(row["stack"])
    if not frames:
        return row["file"] is None
    callers = (frame.file for frame in frames if not frame.file.endswith(BETWEEN))
    return next(callers, "").endswith(COLLECTIVES)


def peak_without_gloo(path: Path) -> int:
    """The most bytes that were requested and live, without what the backend took for itself."""
    recording = gpumemprof.load(path)
    changes = []
    for row in pyarrow.table(recording.allocations).to_pylist():
        if is_of_backend(recording, row):
            continue
        begin, end = row["alloc_event"], row["free_requested_event"]
        changes.append((-1 if begin is None else begin, row["requested_bytes"]))
        if end is not None:
            changes.append((end, -row["requested_bytes"]))
    live = peak = 0
    for _, change in sorted(changes):
        live += change
        peak = max(peak, live)
    return peak


def real_peaks(folder: Path, kind: str, ranks: int) -> list[int]:
    """By rank: the least of several runs, since Gloo's threads may keep a tensor for longer."""
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    program = [*launcher, str(PROGRAM), kind, "--device", "cpu"]
    least: list[int] = []
    for number in range(MOST_RUNS):
        gpumemprof_command(folder, "run", "-o", f"real{number}.gmp", *program)
        files = [next(folder.glob(f"real{number}.*.rank{rank}.*.gmp")) for rank in range(ranks)]
        peaks = [peak_without_gloo(file) for file in files]
        least = [min(pair) for pair in zip(peaks, least or peaks)]
        if max(least) == min(least):  # All ranks of these programs do the same.
            break
    return least


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("kind", ["ddp", "fsdp2", "tp"])
def test_ranks_are_predicted_as_they_are(tmp_path: Path, kind: str, ranks: int) -> None:
    words = ["estimate", "--json", "--steps", "all", "--nproc", str(ranks), "-o", "predicted.gmp"]
    done = gpumemprof_command(tmp_path, *words, str(PROGRAM), kind)
    found = json.loads(done.stdout)["ranks"]
    assert [entry["rank"] for entry in found] == list(range(ranks))
    real = real_peaks(tmp_path, kind, ranks)
    for entry, peak in zip(found, real):
        predicted = gpumemprof.load(tmp_path / entry["file"]).devices[0].peak.requested_bytes
        assert predicted == pytest.approx(peak, rel=0.001), (entry["rank"], predicted, real)
