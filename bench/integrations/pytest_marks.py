"""What the pytest plugin costs a suite of 500 small tests with a mark each.

Each test runs twice in one session, once with the plugin registered and once without, in turn, so
that both see the same machine. CPU time of the whole protocol (setup, call, teardown, reports). The
median of the differences is what one test costs; the sums of all 500 include garbage collections,
each of which takes as long as dozens of tests and lands on either side by chance. The same suite
without a mark registers nothing. The CPU seconds of whole sessions, with imports and collection,
are shown for both.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

TESTS = 500
ROUNDS = int(os.environ.get("ROUNDS", "5"))

CONFTEST = """
import json, os, time
import pytest

spent = {"with": [], "without": []}

@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item):
    plugins = item.config.pluginmanager
    plugin = plugins.get_plugin("gpumemprof-tests")
    count = len(spent["with"]) + len(spent["without"])
    # Twos in changing order: with, without, without, with.
    is_off = count % 4 in (1, 2) and plugin is not None and not os.environ.get("ALL_ON")
    if is_off:
        plugins.unregister(plugin)
    before = time.process_time()
    yield
    spent["without" if is_off or plugin is None else "with"].append(time.process_time() - before)
    if is_off:
        plugins.register(plugin, "gpumemprof-tests")
    return True

def pytest_sessionfinish():
    json.dump(spent, open("spent.json", "w"))
"""
SUITE = """
import pytest, torch
layer = torch.nn.Linear(64, 64)
data = torch.randn(32, 64)

{mark}
@pytest.mark.parametrize("number", range({tests}))
def test_small(number):
    for _ in range(5):
        layer(data).relu().sum().backward()
"""
MARKS = {
    "no mark": "",
    "limit_gpu_memory": '@pytest.mark.limit_gpu_memory("1 GiB")',
    "limit_gpu_leaks": '@pytest.mark.limit_gpu_leaks("1 GiB")',
}


class Session:
    """What one session took, in CPU seconds."""

    def __init__(self, folder: Path, mark: str, tests: int, *words: str, **variables: str) -> None:
        (folder / "test_suite.py").write_text(SUITE.format(mark=mark, tests=tests))
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words],
            cwd=folder,
            env={**os.environ, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1", **variables},
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.spent = json.loads((folder / "spent.json").read_text())
        self.process = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def paired(kind: str, sessions: list[Session]) -> None:
    """What a mark adds to a test."""
    with_it = [time for session in sessions for time in session.spent["with"]]
    without = [time for session in sessions for time in session.spent["without"]]
    differences = [one - other for one, other in zip(with_it, without)]
    base = statistics.median(without)
    added = statistics.median(differences)
    # Of the median: half of the differences lie within it.
    spread = statistics.quantiles(differences, n=4)
    error = (spread[2] - spread[0]) / len(differences) ** 0.5
    change = 100 * (sum(with_it) / sum(without) - 1)
    print(
        f"{kind:<17} {1e6 * base:6.0f} µs a test, the mark adds {1e6 * added:+5.0f} ± "
        f"{1e6 * error:.0f} µs, {100 * added / base:+.1f} %; sums "
        f"{sum(without):.2f} s and {sum(with_it):.2f} s, {change:+.1f} %"
    )


def main() -> None:
    pairs: dict[str, list[Session]] = {}
    whole: dict[tuple[str, bool], list[float]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "conftest.py").write_text(CONFTEST)
        for _ in range(ROUNDS):
            for kind, mark in MARKS.items():
                if mark:
                    pairs.setdefault(kind, []).append(Session(folder, mark, 2 * TESTS))
                off = Session(folder, mark, TESTS, "-p", "no:gpumemprof")
                whole.setdefault((kind, False), []).append(off.process)
                on = Session(folder, mark, TESTS, ALL_ON="1")
                whole.setdefault((kind, True), []).append(on.process)
                if not mark and on.spent["with"]:
                    raise SystemExit("a suite without marks has registered the plugin")
    print(f"{TESTS} tests with and {TESTS} without the plugin, {ROUNDS} sessions")
    for kind, sessions in pairs.items():
        paired(kind, sessions)
    print("whole sessions, the least CPU seconds without and with the plugin")
    for kind in MARKS:
        base, cost = min(whole[kind, False]), min(whole[kind, True])
        print(f"{kind:<17} {base:.2f} s {cost:.2f} s  {100 * (cost / base - 1):+.1f} %")


if __name__ == "__main__":
    main()
