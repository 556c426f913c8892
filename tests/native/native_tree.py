"""Where the native build is, and how tests run commands."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def native_build() -> Path:
    """Where tools/test builds the C++ side."""
    return ROOT / os.environ.get("GPUMEMPROF_NATIVE_BUILD", "build/test")


def run(words: Sequence[object], **options: object) -> subprocess.CompletedProcess[str]:
    """A command that must succeed; its output is shown if it does not."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done
