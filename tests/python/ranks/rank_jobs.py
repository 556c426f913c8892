"""Starts a job of real ranks and reports it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

PROGRAM = Path(__file__).with_name("rank_program.py")


def line_of(comment: str, program: Path = PROGRAM) -> str:
    """Where the program has this comment: "rank_program.py:12"."""
    for number, line in enumerate(program.read_text().splitlines(), 1):
        if line.endswith(f"# {comment}"):
            return f"{program.name}:{number}"
    raise AssertionError(comment)


def start_job(
    folder: Path, ranks: int, *words: str, fails: bool = False, program: Path = PROGRAM
) -> str:
    """Run the program under torchrun, recorded; what it printed on standard error."""
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "GPUMEMPROF": "1",
        "GPUMEMPROF_OUTPUT": "job.gmp",
        "TORCH_DISTRIBUTED_DEBUG": "OFF",
    }
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command = [*launcher, "--nproc-per-node", str(ranks), str(program), *words]
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert (done.returncode != 0) == fails, done.stderr
    return done.stderr


def ranks_command(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gpumemprof", "ranks", *words],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def report_job(folder: Path) -> dict[str, Any]:
    """The only job in the folder."""
    done = ranks_command("--json", str(folder))
    assert done.returncode == 0, done.stderr
    (job,) = json.loads(done.stdout)["jobs"]
    return job  # type: ignore[no-any-return]
