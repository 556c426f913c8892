"""Runs the checks of profiler/run.py one by one, and keeps a row of each."""

from __future__ import annotations

import gc
import traceback
from typing import Any, Callable

import torch

MB = 1 << 20
ROWS: list[dict[str, Any]] = []


def check(what: str, function: Callable[[], str]) -> None:
    """Run one check; it returns what to report, or raises."""
    clean()
    try:
        told, is_met = function(), True
    except BaseException:
        told, is_met = traceback.format_exc(), False
    ROWS.append({"what": what, "told": told, "is_met": is_met})
    print(f"{'ok  ' if is_met else 'FAIL'}  {what:<44} {told}", flush=True)


def same(what: str, ours: object, truth: object) -> None:
    if ours != truth:
        raise AssertionError(f"{what}: {ours} is not {truth}")


def clean() -> None:
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()


def peaks() -> tuple[int, int]:
    return torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
