"""The benchmarks' own scripts as modules, for tests that measure what they measure."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

_FOLDER = Path(__file__).resolve().parents[2] / "bench"


def benchmark(name: str) -> ModuleType:
    """bench/NAME.py; it may import its neighbours."""
    sys.path.insert(0, str(_FOLDER))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(_FOLDER))
