"""Runs small programs under the recorder, for the tests of live capture."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")


def run_program(
    folder: Path, program: str, *arguments: str, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program in a process of its own, in this folder."""
    script = folder / "program.py"
    script.write_text(textwrap.dedent(program))
    return run_command(folder, [str(script), *arguments], environment)


def run_recorded(
    folder: Path, *words: str, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """``gpumemprof run`` with these arguments."""
    return run_command(folder, ["-m", "gpumemprof", "run", *words], environment)


def run_command(
    folder: Path, words: list[str], environment: dict[str, str] | None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", **(environment or {})},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def run_advise(
    folder: Path, *words: str, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """``gpumemprof advise`` with these arguments."""
    return run_command(folder, ["-m", "gpumemprof", "advise", *words], environment)
