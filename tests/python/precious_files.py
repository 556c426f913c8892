"""Files that a prediction must not change: what they are, and a prediction with chosen layers."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from gpumemprof.estimate.shelter.shelter import LAYERS_VARIABLE, open_shelter

Manifest = dict[str, tuple[int, int, str]]
"""Every entry, with its mode, its time and its content."""


def manifest(folder: Path) -> Manifest:
    found = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        found[str(path.relative_to(folder))] = (status.st_mode, status.st_mtime_ns, content)
    return found


def estimate(
    folder: Path, layers: str, *words: str, prefix: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*prefix, sys.executable, "-m", "gpumemprof", "estimate", *words],
        cwd=folder,
        env={**os.environ, LAYERS_VARIABLE: layers, "COLUMNS": "80"},
        capture_output=True,
        text=True,
        check=False,
    )


def require(layer: str) -> None:
    """Skip where this machine does not have it: the product uses another one there."""
    before = os.environ.get(LAYERS_VARIABLE)
    os.environ[LAYERS_VARIABLE] = layer
    try:
        open_shelter([]).close()
    except Exception:
        pytest.skip(f"{layer} is not available here")
    finally:
        os.environ.pop(LAYERS_VARIABLE)
        if before is not None:
            os.environ[LAYERS_VARIABLE] = before
