"""Recordings that grow, for tests: bytes of a real one written part by part, and real programs."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

DATA = Path(__file__).resolve().parents[2] / "data"
TRAINING = DATA / "traces" / "cpu_training.gmp"

PROGRAM = """
import sys, time, torch
torch.set_num_threads(1)
print("the program prints", flush=True)
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.Adam(model.parameters())
for step in range(int(sys.argv[1])):
    model(torch.ones(8, 64)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    time.sleep(0.01)
if sys.argv[2] == "crash":
    raise ValueError("on purpose")
while sys.argv[2] == "wait":
    time.sleep(0.1)
sys.exit(int(sys.argv[3]) if len(sys.argv) > 3 else 0)
"""


def start_program(folder: Path, *words: object, name: str = "train.py") -> subprocess.Popen[bytes]:
    """``gpumemprof run`` with `PROGRAM`; its recording is the only one of its process."""
    (folder / name).write_text(PROGRAM)
    command = [sys.executable, "-m", "gpumemprof", "run", "--cpu", name, *map(str, words)]
    return subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=dict(os.environ)
    )


def wait_until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    """As long as it takes on a busy machine."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)


class GrowingFile:
    """A recording that is written part by part."""

    def __init__(self, path: Path, source: Path = TRAINING) -> None:
        self.path = path
        self._bytes = source.read_bytes()
        self._written = 0
        path.write_bytes(b"")

    @property
    def size(self) -> int:
        return len(self._bytes)

    def grow(self, count: int | None = None) -> None:
        part = self._bytes[self._written : None if count is None else self._written + count]
        with self.path.open("ab") as file:
            file.write(part)
        self._written += len(part)
