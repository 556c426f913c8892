"""What the pytest plugin adds to a whole session: start, imports, collection, 500 tests, the end.

usage: pytest_sessions.py [--rounds N] [--tests N] [--instructions]

One round runs a session of each kind, in changing order: without the plugin, with it but without a
mark, and with each of the marks. Only CPU time counts (user and system, of the session and of all
its children), so that waiting does not; each kind is compared with another of the same round, and
the mean of these ratios is printed with its 95 % interval. Sessions without the plugin are run
twice in each round: their ratio says what the machine itself does to such a figure.

Even so, other programs on the machine change what an instruction costs. With --instructions, each
session is run under valgrind, which counts the instructions; that takes a minute for each.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

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
MEMORY = '@pytest.mark.limit_gpu_memory("1 GiB")'
LEAKS = '@pytest.mark.limit_gpu_leaks("1 GiB")'
OFF = ("-p", "no:gpumemprof")
# A mark, and what else pytest is told.
KINDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "no plugin": ("", OFF),
    "no plugin again": ("", OFF),
    "no mark": ("", ()),
    "limit_gpu_memory": (MEMORY, ()),
    "limit_gpu_leaks": (LEAKS, ()),
}
COMPARED = (
    ("no plugin again", "no plugin"),
    ("no mark", "no plugin"),
    ("limit_gpu_memory", "no mark"),
    ("limit_gpu_leaks", "no mark"),
)
# Two-sided 95 % quantiles of Student's t, by degrees of freedom; about 2 beyond.
STUDENT = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 7: 2.36, 9: 2.26, 14: 2.14, 19: 2.09}


def environment() -> dict[str, str]:
    # Names are hashed alike, so that dictionaries take the same number of instructions.
    fixed = {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
    return {**os.environ, **fixed}


def session(folder: Path, kind: str, tests: int, *before: str) -> None:
    mark, words = KINDS[kind]
    (folder / "test_suite.py").write_text(SUITE.format(mark=mark, tests=tests))
    command = [*before, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words]
    done = subprocess.run(
        command, cwd=folder, env=environment(), capture_output=True, text=True, check=False
    )
    if done.returncode != 0 or f"{tests} passed" not in done.stdout:
        raise SystemExit(f"{kind}: the session failed:\n{done.stdout}\n{done.stderr}")


def cpu_seconds(folder: Path, kind: str, tests: int) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    session(folder, kind, tests)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def instructions(folder: Path, kind: str, tests: int) -> float:
    out = folder / "counted"
    session(
        folder, kind, tests, "valgrind", "--tool=cachegrind", "--cache-sim=no",
        f"--cachegrind-out-file={out}",
    )  # fmt: skip
    found = re.search(r"^summary: (\d+)", out.read_text(), re.MULTILINE)
    if found is None:
        raise SystemExit("valgrind has counted nothing")
    return float(found[1])


def compare(figures: dict[str, list[float]], kind: str, base: str) -> str:
    changes = [100 * (one / other - 1) for one, other in zip(figures[kind], figures[base])]
    text = f"{kind:<17} against {base:<10} {statistics.mean(changes):+6.2f} %"
    if len(changes) > 1:
        degrees = len(changes) - 1
        quantile = STUDENT[max(known for known in STUDENT if known <= degrees)]
        text += f" ± {quantile * statistics.stdev(changes) / len(changes) ** 0.5:.2f} %"
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--tests", type=int, default=500)
    parser.add_argument("--instructions", action="store_true")
    flags = parser.parse_args()
    measure = instructions if flags.instructions else cpu_seconds
    figures: dict[str, list[float]] = {kind: [] for kind in KINDS}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        session(folder, "limit_gpu_memory", flags.tests)  # Compiles what was not compiled yet.
        for number in range(flags.rounds):
            order = list(KINDS)
            turned = order[number % len(order) :] + order[: number % len(order)]
            for kind in turned if number % 2 else reversed(turned):
                figures[kind].append(measure(folder, kind, flags.tests))
    unit, scale = ("billion instructions", 1e9) if flags.instructions else ("CPU s", 1)
    print(f"sessions of {flags.tests} tests, {flags.rounds} rounds")
    for kind, values in figures.items():
        print(f"{kind:<17} median {statistics.median(values) / scale:.3f} {unit}")
    for kind, base in COMPARED:
        print(compare(figures, kind, base))


if __name__ == "__main__":
    main()
