"""The pytest plugin, as pytest sees it at its start.

`gpumemprof.integrations.testing` does the work. It is imported only if a collected test has one of
the marks, or with ``--gpumemprof``. Until then, nothing of ours runs during tests.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import sys
from collections.abc import Iterator
from typing import Any

import pytest

_MARKS = ("limit_gpu_memory", "limit_gpu_leaks")
_NAME = "gpumemprof-tests"
_REWRITING = "AssertionRewritingHook"


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"takes a number of tests, but has {text!r}")
    return int(text)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("gpumemprof", "memory of tests")
    group.addoption(
        "--gpumemprof",
        action="store_true",
        help="measure the memory of every test, and list those that use most",
    )
    group.addoption(
        "--gpumemprof-top",
        type=_count,
        default=10,
        metavar="N",
        help="how many tests --gpumemprof lists (default: 10)",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        'limit_gpu_memory(limit, device=None): fail if the test allocates more than this ("2 GiB") '
        "at one time, beyond what was allocated when it began",
    )
    config.addinivalue_line(
        "markers",
        "limit_gpu_leaks(limit, warmups=0, device=None): fail if the test leaves more than this "
        "allocated; it is first run as often as warmups says",
    )
    if config.getoption("--gpumemprof"):
        _start(config)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if any(item.get_closest_marker(mark) for item in items for mark in _MARKS):
        _start(config)


def _start(config: pytest.Config) -> None:
    if config.pluginmanager.has_plugin(_NAME):
        return
    with _without_rewriting():
        from gpumemprof.integrations.testing.plugin import MemoryPlugin

    config.pluginmanager.register(MemoryPlugin(config), _NAME)
    _settle_garbage()


@contextlib.contextmanager
def _without_rewriting() -> Iterator[None]:
    """Import as Python does.

    pytest rewrites the assertions in every module of a package that has a plugin. Ours has none
    that a test would fail at, and where nothing is cached it takes a quarter of a second.
    """
    hook = next((one for one in sys.meta_path if type(one).__name__ == _REWRITING), None)
    if hook is None:
        yield
        return
    place = sys.meta_path.index(hook)
    sys.meta_path.remove(hook)
    try:
        yield
    finally:
        sys.meta_path.insert(place, hook)


def _settle_garbage() -> None:
    """Keep what was just imported from causing a full collection in the middle of the tests.

    Python collects everything once enough new objects have survived; with torch loaded, that takes
    as long as dozens of small tests. Objects that were frozen for a moment count as old.
    """
    if gc.get_freeze_count() == 0:  # Else the program wants its own objects to stay frozen.
        gc.freeze()
        gc.unfreeze()


@pytest.fixture
def gpu_memory(request: pytest.FixtureRequest) -> Any:
    """A profiler of the current CUDA device, or of CPU tensors where there is no CUDA."""
    from gpumemprof.integrations.testing.devices import new_profiler

    return new_profiler()
