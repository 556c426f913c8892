"""The ways events are obtained, and what each reports about itself. Prints one line of JSON.

Native with its self-test and its forward stacks; torch's own recorder; torch's counters, both on
request and because of the allocator in use; several ranks under torchrun, and torchrun under
``run``, whose workers that never touch the GPU leave no file.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import gpumemprof
from gpumemprof import _core

HERE = Path(__file__).resolve().parent
PROGRAM = """
import sys
import torch
sys.path.insert(0, {here!r})
from workloads import small_training
step = small_training()
for _ in range(5):
    step()
torch.cuda.synchronize()
print("peak", torch.cuda.max_memory_allocated())
"""


def rows(path: str) -> list[dict[str, Any]]:
    import pyarrow

    return list(pyarrow.table(gpumemprof.load(path).events).to_pylist())


def run(
    folder: Path, environment: dict[str, str], launcher: tuple[str, ...] = ()
) -> tuple[subprocess.CompletedProcess[str], list[Path]]:
    folder.mkdir()
    (folder / "train.py").write_text(PROGRAM.format(here=str(HERE)))
    done = subprocess.run(
        [sys.executable, *launcher, "-m", "gpumemprof", "run", "train.py"],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=200,
    )
    return done, sorted(folder.glob("*.gmp"))


def facts_of(path: Path) -> dict[str, str]:
    found: dict[str, str] = gpumemprof.load(path).report(top=0)["input"]["facts"]
    return found


def peaks_printed(text: str) -> list[int]:
    return [int(line.split()[1]) for line in text.splitlines() if line.startswith("peak")]


def check(
    folder: Path, environment: dict[str, str], expected: dict[str, str], has_events: bool = True
) -> dict[str, Any]:
    done, files = run(folder, environment)
    if done.returncode != 0 or len(files) != 1:
        return {"wrong": [f"exit {done.returncode}, {len(files)} files: {done.stderr[-800:]}"]}
    facts = facts_of(files[0])
    wrong = [
        f"{key}: {facts.get(key)!r} not {value!r}"
        for key, value in expected.items()
        if facts.get(key) != value
    ]
    (peak,) = peaks_printed(done.stdout)
    if has_events:
        (device,) = gpumemprof.load(files[0]).devices
        if device.peak.allocated_bytes != peak:
            wrong.append(f"peak {device.peak.allocated_bytes} not {peak}")
        closing = f"peak {_core.format_bytes(peak)} on cuda:0"
        if "self_test" in expected and closing not in done.stderr:
            wrong.append(f"no {closing!r} in {done.stderr[-300:]!r}")
        if has_events and "self_test" in expected:
            wrong += forward_problems(str(files[0]))
    elif facts.get("device 0 peak_allocated_bytes") != str(peak):
        wrong.append(f"counted {facts.get('device 0 peak_allocated_bytes')} not {peak}")
    told = [line for line in done.stderr.splitlines() if "gpumemprof" in line]
    return {"wrong": wrong, "told": told[0][:100] if told else ""}


def forward_problems(path: str) -> list[str]:
    """Backward runs without Python: nearly all of its memory must name a forward line."""
    allocated = [row for row in rows(path) if row["action"] == "alloc" and row["stack"] is None]
    named = [row for row in allocated if row["forward_stack"] is not None]
    recording = gpumemprof.load(path)
    names = {frame.name for row in named for frame in recording.stack(row["forward_stack"])}
    wrong = []
    if len(named) < 0.8 * len(allocated) or not allocated:
        wrong.append(f"{len(named)} of {len(allocated)} allocations in backward name their forward")
    if not any(name.endswith("forward") for name in names):
        wrong.append(f"forward stacks name {sorted(names)[:5]}")
    return wrong


def torchrun(folder: Path) -> dict[str, Any]:
    launcher = ("-m", "torch.distributed.run", "--nproc-per-node", "2")
    done, files = run(folder, {}, launcher)
    ranks = sorted(facts_of(path).get("rank", "?") for path in files)
    wrong = [] if ranks == ["0", "1"] else [f"ranks {ranks}: {done.stderr[-800:]}"]
    for path in files:
        (device,) = gpumemprof.load(path).devices
        if device.peak.allocated_bytes not in peaks_printed(done.stdout):
            wrong.append(f"{path.name}: peak {device.peak.allocated_bytes}")
    return {"wrong": wrong, "told": ", ".join(path.name for path in files)}


WORKERS = """
import os, sys, torch
sys.path.insert(0, {here!r})
from workloads import small_training
class Data(torch.utils.data.Dataset):
    def __len__(self): return 8
    def __getitem__(self, row): return torch.ones(1000) * row
if __name__ == "__main__":
    loader = torch.utils.data.DataLoader(Data(), batch_size=2, num_workers=2)
    assert sum(1 for _ in loader) == 4
    step = small_training()
    for _ in range(5): step()
    torch.cuda.synchronize()
    print("peak", torch.cuda.max_memory_allocated())
    assert sum(1 for _ in loader) == 4
"""


CHILDREN = """
import subprocess, sys, torch
sys.path.insert(0, {here!r})
from workloads import small_training
def train(rank=0):
    step = small_training()
    for _ in range(5): step()
    torch.cuda.synchronize()
    print("peak", torch.cuda.max_memory_allocated(), flush=True)
if __name__ == "__main__":
    if sys.argv[1:] != ["child"]:
        torch.multiprocessing.spawn(train, nprocs=2)
        subprocess.run([sys.executable, "train.py", "child"], check=True)
    train()
"""


def children_under_run(folder: Path) -> dict[str, Any]:
    folder.mkdir()
    (folder / "train.py").write_text(CHILDREN.format(here=str(HERE)))
    done = subprocess.run(
        [sys.executable, "-m", "gpumemprof", "run", "-o", "run.gmp", "train.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=200,
    )
    files = sorted(folder.glob("*.gmp"))
    wrong = [] if len(files) == 4 else [f"{len(files)} files: {done.stderr[-800:]}"]
    recorded = [gpumemprof.load(path).devices[0].peak.allocated_bytes for path in files]
    if sorted(recorded) != sorted(peaks_printed(done.stdout)):
        wrong.append(f"peaks {recorded}, printed {peaks_printed(done.stdout)}")
    return {"wrong": wrong, "told": ", ".join(path.name for path in files)}


def torchrun_under_run(folder: Path) -> dict[str, Any]:
    folder.mkdir()
    (folder / "train.py").write_text(WORKERS.format(here=str(HERE)))
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "train.py"]
    done = subprocess.run(
        [sys.executable, "-m", "gpumemprof", "run", "-o", "run.gmp", *launcher],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=200,
    )
    files = sorted(folder.glob("*.gmp"))
    ranks = sorted(facts_of(path).get("rank", "?") for path in files)
    wrong = [] if ranks == ["0", "1"] else [f"ranks {ranks}: {done.stderr[-800:]}"]
    for path in files:
        (device,) = gpumemprof.load(path).devices
        if device.peak.allocated_bytes not in peaks_printed(done.stdout):
            wrong.append(f"{path.name}: peak {device.peak.allocated_bytes}")
        if path.name not in done.stderr:
            wrong.append(f"{path.name} is not named: {done.stderr[-300:]}")
    return {"wrong": wrong, "told": ", ".join(path.name for path in files)}


def main() -> None:
    folder = Path(tempfile.mkdtemp())
    native = {"capture": "native", "self_test": "passed", "forward_stacks": "on"}
    asynchronous = {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}
    counters = {"GPUMEMPROF_CAPTURE": "counters"}
    recorder = {"GPUMEMPROF_CAPTURE": "recorder"}
    ways = {
        "native": lambda: check(folder / "native", {}, native),
        "torch's recorder": lambda: check(folder / "recorder", recorder, {"capture": "recorder"}),
        "counters": lambda: check(folder / "counters", counters, {"capture": "counters"}, False),
        "cudaMallocAsync": lambda: check(
            folder / "async", asynchronous, {"capture": "counters"}, False
        ),
        "torchrun, two ranks": lambda: torchrun(folder / "torchrun"),
        "mp.spawn and subprocess": lambda: children_under_run(folder / "children"),
        "torchrun under run": lambda: torchrun_under_run(folder / "under"),
    }
    # Each counts only its own processes, so they may run in parallel.
    with ThreadPoolExecutor(len(ways)) as pool:
        results = dict(zip(ways, pool.map(within_the_limit, ways.values())))
    for result in results.values():
        result.setdefault("bar", "says what it is, peak as torch's")
        result.setdefault("told", "")
    print(json.dumps(results))


def within_the_limit(way: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    try:
        return way()
    except subprocess.TimeoutExpired as problem:
        return {"wrong": [f"ran longer than {problem.timeout} s: {problem.stderr!r}"]}


if __name__ == "__main__":
    main()
