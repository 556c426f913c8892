"""Runs a test once more: to warm up, or for the lines of a message.

Functions of pytest raise when they fail. Tests of ``unittest`` tell pytest instead, which keeps
their failures in a list and reports one in each phase of the test.
"""

from __future__ import annotations

from typing import Any

import pytest

__all__ = ["has_failed", "run_again"]

_FAILURES = "_excinfo"
_RUNNER = "_asyncioRunner"


def has_failed(item: pytest.Item) -> bool:
    """Whether a test of ``unittest`` has failed, or was skipped, in a run before."""
    return bool(getattr(item, _FAILURES, None))


def _make_ready(item: pytest.Item) -> None:
    """An asynchronous test of ``unittest`` closes its loop, and then refuses to run with it."""
    test: Any = getattr(item, "instance", None)
    if getattr(test, _RUNNER, None) is not None:
        setattr(test, _RUNNER, None)


def run_again(item: pytest.Item, *, is_shown: bool = True) -> None:
    """Run a test, without its fixtures.

    Args:
        item: the test.
        is_shown: whether pytest shows how it fails.

    Raises:
        BaseException: the test's own, or one for pytest to replace by what ``unittest`` told it.
    """
    _make_ready(item)
    failures = getattr(item, _FAILURES, None)
    before = list(failures or ())
    try:
        item.runtest()
        failed = has_failed(item)
    finally:
        _make_ready(item)
        if not is_shown and hasattr(item, _FAILURES):
            setattr(item, _FAILURES, before or None)
    if failed:
        raise pytest.fail.Exception("it failed in another run", pytrace=False)
