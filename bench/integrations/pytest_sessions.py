"""What the pytest plugin adds to a whole session: start, imports, collection, 500 tests, the end.

usage: pytest_sessions.py [--rounds N] [--tests N] [--add FILE] [--instructions | --forked]

One round runs a session of each kind, in random order: without the package, with it but without a
mark, and with each of the marks. "Without the package" is the same environment with gpumemprof left
out of the folder that Python imports from. CPU time (user and system, of the session and of all its
children) and wall time are measured; each kind is compared with another of the same round, and the
mean of these ratios is printed with its 95 % interval. Sessions without the package are run twice
in each round: their ratio says what the machine itself does to such a figure.

With --add, the rounds are added to those in a file, so that a long measurement can be made in
pieces. Other programs on the machine change what an instruction costs: with --instructions, each
session is run under valgrind, which counts the instructions; that takes a minute for each. With
--forked, sessions are children of one process that has imported torch and pytest, which is most of
what a session takes and most of what varies; what the plugin adds is then given in milliseconds,
and as a share of a whole session, of which a few are run too.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import resource
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
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
# A mark, and whether the package is there.
KINDS = {
    "not installed": ("", False),
    "not installed again": ("", False),
    "no mark": ("", True),
    "limit_gpu_memory": (MEMORY, True),
    "limit_gpu_leaks": (LEAKS, True),
}
COMPARED = (
    ("not installed again", "not installed"),
    ("no mark", "not installed"),
    ("limit_gpu_memory", "no mark"),
    ("limit_gpu_leaks", "no mark"),
    ("limit_gpu_memory", "not installed"),
    ("limit_gpu_leaks", "not installed"),
)
# As `python -m pytest`, but from this folder of packages.
START = (
    "import site, sys; site.addsitedir(sys.argv.pop(1)); import pytest; "
    "raise SystemExit(pytest.main(sys.argv[1:]))"
)
# Two-sided 95 % quantiles of Student's t, by degrees of freedom; about 2 beyond.
STUDENT = {
    1: 12.71,
    2: 4.30,
    3: 3.18,
    4: 2.78,
    5: 2.57,
    7: 2.36,
    9: 2.26,
    14: 2.14,
    19: 2.09,
    29: 2.05,
}


def environment() -> dict[str, str]:
    # Names are hashed alike, so that dictionaries take the same number of instructions.
    fixed = {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
    return {**os.environ, **fixed}


def link_packages(folder: Path) -> None:
    """Two folders with all packages of this Python: with gpumemprof, and without."""
    packages = {Path(sysconfig.get_path(kind)) for kind in ("purelib", "platlib")}
    for is_there in (True, False):
        place = folder / str(is_there)
        place.mkdir()
        for entry in (entry for source in packages for entry in source.iterdir()):
            if is_there or not entry.name.startswith("gpumemprof"):
                (place / entry.name).symlink_to(entry)


def session(folder: Path, kind: str, tests: int, *before: str) -> None:
    mark, is_installed = KINDS[kind]
    suite = folder / "suite"
    suite.mkdir(exist_ok=True)
    (suite / "test_suite.py").write_text(SUITE.format(mark=mark, tests=tests))
    python = [sys.executable, "-S", "-c", START, str(folder / str(is_installed))]
    command = [*before, *python, "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        command, cwd=suite, env=environment(), capture_output=True, text=True, check=False
    )
    if done.returncode != 0 or f"{tests} passed" not in done.stdout:
        raise SystemExit(f"{kind}: the session failed:\n{done.stdout}\n{done.stderr}")


def seconds(folder: Path, kind: str, tests: int) -> tuple[float, float]:
    """CPU and wall."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    session(folder, kind, tests)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime, wall


def instructions(folder: Path, kind: str, tests: int) -> tuple[float]:
    out = folder / "counted"
    session(
        folder, kind, tests, "valgrind", "--tool=cachegrind", "--cache-sim=no",
        f"--cachegrind-out-file={out}",
    )  # fmt: skip
    found = re.search(r"^summary: (\d+)", out.read_text(), re.MULTILINE)
    if found is None:
        raise SystemExit("valgrind has counted nothing")
    return (float(found[1]) / 1e9,)


# Sessions in children, one of each kind in random order for each round; CPU seconds of each.
FORKED = """
import json, os, random, site, sys
site.addsitedir(sys.argv[1])
import pytest, torch
kinds, rounds = json.loads(sys.argv[2]), int(sys.argv[3])
nothing = os.open(os.devnull, os.O_WRONLY)
for _ in range(rounds):
    found = {}
    for kind in random.sample(list(kinds), len(kinds)):
        child = os.fork()
        if child == 0:
            os.dup2(nothing, 1)
            os.chdir(kinds[kind][0])
            code = pytest.main(["-q", "-p", "no:cacheprovider", *kinds[kind][1]])
            os._exit(int(code))
        _, status, usage = os.wait4(child, 0)
        if status != 0:
            raise SystemExit(f"{kind}: the session failed")
        found[kind] = usage.ru_utime + usage.ru_stime
    print(json.dumps(found), flush=True)
"""
OFF = ["-p", "no:gpumemprof"]


def forked(folder: Path, tests: int, rounds: int) -> list[dict[str, float]]:
    kinds = {
        "off": ("", OFF),
        "no mark": ("", []),
        "limit_gpu_memory": (MEMORY, []),
        "limit_gpu_leaks": (LEAKS, []),
    }
    places = {}
    for kind, (mark, words) in kinds.items():
        suite = folder / kind.replace(" ", "_")
        suite.mkdir()
        (suite / "test_suite.py").write_text(SUITE.format(mark=mark, tests=tests))
        places[kind] = (str(suite), words)
    words = [str(folder / "True"), json.dumps(places), str(rounds)]
    command = [sys.executable, "-S", "-c", FORKED, *words]
    done = subprocess.run(command, env=environment(), stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def show_forked(rounds: list[dict[str, float]], whole_s: float) -> None:
    print(f"{len(rounds)} rounds; a whole session takes {whole_s:.2f} CPU s (median)")
    for kind, base in (
        ("no mark", "off"),
        ("limit_gpu_memory", "no mark"),
        ("limit_gpu_leaks", "no mark"),
    ):
        added = [1000 * (one[kind] - one[base]) for one in rounds]
        quantile = STUDENT[max(known for known in STUDENT if known <= len(added) - 1)]
        error = quantile * statistics.stdev(added) / len(added) ** 0.5
        mean = statistics.mean(added)
        print(
            f"{kind:<17} against {base:<8} {mean:+6.1f} ± {error:.1f} ms, "
            f"{0.1 * mean / whole_s:+.2f} ± {0.1 * error / whole_s:.2f} % of a session"
        )


Rounds = list[dict[str, list[float]]]


def compare(rounds: Rounds, measure: int, kind: str, base: str) -> str:
    changes = [100 * (one[kind][measure] / one[base][measure] - 1) for one in rounds]
    text = f"{statistics.mean(changes):+6.2f} %"
    if len(changes) > 1:
        degrees = len(changes) - 1
        quantile = STUDENT[max(known for known in STUDENT if known <= degrees)]
        text += f" ± {quantile * statistics.stdev(changes) / len(changes) ** 0.5:.2f} %"
    return text


def show(rounds: Rounds, units: tuple[str, ...]) -> None:
    for kind in KINDS:
        medians = [
            f"{statistics.median(one[kind][measure] for one in rounds):.3f} {unit}"
            for measure, unit in enumerate(units)
        ]
        print(f"{kind:<19} median {', '.join(medians)}")
    for kind, base in COMPARED:
        found = [
            f"{unit} {compare(rounds, measure, kind, base)}" for measure, unit in enumerate(units)
        ]
        print(f"{kind:<19} against {base:<14} {'; '.join(found)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--tests", type=int, default=500)
    parser.add_argument("--add", type=Path, metavar="FILE")
    parser.add_argument("--instructions", action="store_true")
    parser.add_argument("--forked", action="store_true")
    flags = parser.parse_args()
    measure = instructions if flags.instructions else seconds
    rounds: Rounds = []
    if flags.add is not None and flags.add.exists():
        rounds = json.loads(flags.add.read_text())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        link_packages(folder)
        session(folder, "limit_gpu_memory", flags.tests)  # Compiles what was not compiled yet.
        if flags.forked:
            whole = [seconds(folder, "no mark", flags.tests)[0] for _ in range(5)]
            show_forked(forked(folder, flags.tests, flags.rounds), statistics.median(whole))
            return
        for _ in range(flags.rounds):
            order = random.sample(list(KINDS), len(KINDS))
            rounds.append({kind: list(measure(folder, kind, flags.tests)) for kind in order})
            if flags.add is not None:
                flags.add.write_text(json.dumps(rounds))
    print(f"sessions of {flags.tests} tests, {len(rounds)} rounds")
    show(rounds, ("billion instructions",) if flags.instructions else ("CPU s", "wall s"))


if __name__ == "__main__":
    main()
