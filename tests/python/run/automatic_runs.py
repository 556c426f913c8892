"""Runs programs with GPUMEMPROF=1, and nothing else changed."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path


def environment(**variables: str) -> dict[str, str]:
    inherited = {key: text for key, text in os.environ.items() if not key.startswith("GPUMEMPROF")}
    return {**inherited, "GPUMEMPROF": "1", "OMP_NUM_THREADS": "1", **variables}


def write(folder: Path, program: str, name: str = "train.py") -> None:
    (folder / name).write_text(textwrap.dedent(program))


def run_automatic(
    folder: Path, *words: str, program: str = "", **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run ``train.py`` in this folder, or other words of Python's command line."""
    if program:
        write(folder, program)
    return subprocess.run(
        [sys.executable, *(words or ["train.py"])],
        cwd=folder,
        env=environment(**variables),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def recordings(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*.gmp"))
