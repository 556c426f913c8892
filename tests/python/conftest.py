"""Recorded snapshots together with PyTorch's own counters, and the command as a process."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import gpumemprof
import pytest

SNAPSHOTS = Path(__file__).resolve().parents[1] / "data" / "snapshots"
NAMES = sorted(path.stem for path in SNAPSHOTS.glob("*.json"))

Command = Callable[..., subprocess.CompletedProcess[str]]


def snapshot_path(name: str) -> Path:
    return SNAPSHOTS / f"{name}.pickle.gz"


@cache
def recording_of(name: str) -> gpumemprof.Recording:
    return gpumemprof.load(snapshot_path(name))


@cache
def truth_of(name: str) -> dict[str, Any]:
    truth: dict[str, Any] = json.loads((SNAPSHOTS / f"{name}.json").read_text())
    return truth


def run_on_terminal(folder: Path, *words: str, **variables: str) -> tuple[str, int]:
    """All that Python writes to a terminal of 80 columns, and its exit code."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.environ.pop("NO_COLOR", None)
        os.environ.update(TERM="xterm-256color", COLUMNS="80", LINES="24", **variables)
        os.execv(sys.executable, [sys.executable, *words])
    printed = b""
    with contextlib.suppress(OSError):  # This is how Linux says that the other end was closed.
        while part := os.read(terminal, 1 << 16):
            printed += part
    _, status = os.waitpid(pid, 0)
    return printed.decode(errors="replace"), os.waitstatus_to_exitcode(status)


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    """Each recorded run in turn."""
    return str(request.param)


@pytest.fixture
def recording(name: str) -> gpumemprof.Recording:
    return recording_of(name)


@pytest.fixture
def truth(name: str) -> dict[str, Any]:
    return truth_of(name)


@pytest.fixture
def oom_run() -> gpumemprof.Recording:
    """GPT-2 training until it ran out of memory."""
    return recording_of("gpt2_b32_fp32_adamw_oom")


@pytest.fixture
def profiler() -> gpumemprof.CPUMemoryProfiler:
    """A new profiler of CPU tensors."""
    return gpumemprof.CPUMemoryProfiler()


@pytest.fixture(scope="session")
def command() -> Command:
    """Runs ``python -m gpumemprof ARGUMENTS`` and returns its exit code and output."""

    def run(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
        words = [sys.executable, "-m", "gpumemprof", *map(str, arguments)]
        return subprocess.run(
            words, capture_output=True, text=True, timeout=60, check=False, **options
        )

    return run


@pytest.fixture
def memory() -> Any:
    """An allocator that only counts, for an estimate."""
    pytest.importorskip("torch")
    from counting_memory import CountingMemory

    return CountingMemory()


@pytest.fixture
def estimate(memory: Any) -> Iterator[Any]:
    """An estimate on that allocator."""
    from counting_memory import CARD
    from gpumemprof.estimate.engine import session

    with session.estimating(CARD, memory=memory) as running:
        yield running


# Most of their time is that of other processes.
LONG_FOLDERS = ("run", "record", "advise", "package")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts estimates within this process first, then what takes long.

    Autograd asks only once in a process how many GPUs there are, and a long file that began last
    would keep one process busy while the others have ended.
    """
    items.sort(key=lambda item: _place_in_order(item.path))


def _place_in_order(path: Path) -> int:
    here = Path(__file__).parent
    folder = path.parent.relative_to(here).parts if path.is_relative_to(here) else ()
    if folder[:1] == ("estimate",):
        return 1 if "command" in folder else 0
    return 2 if folder[:1] and folder[0] in LONG_FOLDERS else 3
