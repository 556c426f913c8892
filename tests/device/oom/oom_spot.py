"""Runs out of memory in many ways and checks what the failing program itself prints. Prints JSON.

Usage: python tests/device/oom/oom_spot.py [--only CASE...]

Each case is a program of its own, recorded by `gpumemprof run`, by `start()` or by GPUMEMPROF=1.
Checked: the cause named on the page, the exception, the exit code, and that what was caught costs
one line. Cases that need the whole card run alone, the others side by side under a limit.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

OPENING = """
import ctypes, sys, threading, time, torch, gpumemprof
GIB, MIB = 1 << 30, 1 << 20
def block(size): return torch.empty(int(size), dtype=torch.uint8, device="cuda")
torch.zeros(1, device="cuda")
total = torch.cuda.get_device_properties(0).total_memory
def limit(size): torch.cuda.set_per_process_memory_fraction(size / total)
def settle(): time.sleep(1.5)  # so that the card is sampled
def runtime():
    maps = open("/proc/self/maps").read().splitlines()
    return ctypes.CDLL(next(line.split()[-1] for line in maps if "libcudart" in line))
def take_outside(size):
    held = ctypes.c_void_p()
    return runtime().cudaMalloc(ctypes.byref(held), ctypes.c_size_t(int(size)))
"""
HOLDER = """
import sys, torch
free, _ = torch.cuda.mem_get_info()
held = torch.empty(free - (6 << 30), dtype=torch.uint8, device="cuda")
print("held", flush=True)
sys.stdin.read()
"""


@dataclass
class Case:
    says: str
    """What the page must contain."""
    cause: str | None = None
    """In the report of the recording; None: PyTorch's allocator did not fail."""
    code: int = 1
    raises: str = "torch.OutOfMemoryError: CUDA out of memory"
    pages: int = 1
    is_alone: bool = False
    how: str = "run"
    """``run``, ``start``, ``variable`` or ``torchrun``."""
    holder: bool = False


PROGRAMS = {
    "limit": """
limit(4 * GIB)
keep = block(3 * GIB)
block(2 * GIB)
""",
    # Each gap contains whole pages, which expandable segments give back.
    "gaps": """
limit(4.25 * GIB)
whole = [block(GIB) for _ in range(4)]
del whole
parts = [block(256 * MIB) for _ in range(16)]
parts = parts[::4]
block(2 * GIB)
""",
    # No gap contains a page of 20 MiB: no setting of the allocator helps.
    "small_gaps": """
limit(4.25 * GIB)
bits = [block(5 * MIB) for _ in range(800)]
bits = bits[::4]
block(2 * GIB)
""",
    "other_process": """
keep = [block(GIB) for _ in range(3)]
settle()
block(6 * GIB)
""",
    "outside_pool": """
free, _ = torch.cuda.mem_get_info()
assert take_outside(free - 2 * GIB) == 0
settle()
block(4 * GIB)
""",
    "shortage": """
free, _ = torch.cuda.mem_get_info()
keep = [block(free - 3 * GIB)]
settle()
block(4 * GIB)
""",
    "one_request": """
keep = [block(MIB * n) for n in range(1, 20)]
settle()
block(0.999 * total)
""",
    "absurd": """
block(2 * total)
""",
    "graph_pool": """
limit(4 * GIB)
static = torch.zeros(MIB, device='cuda')
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    big = block(3 * GIB)
    big.fill_(1)
    del big
block(2 * GIB)
""",
    "deferred_frees": """
limit(4 * GIB)
side = torch.cuda.Stream()
big = block(3 * GIB)
graph = torch.cuda.CUDAGraph()
torch.cuda.synchronize()
with torch.cuda.graph(graph):
    big.record_stream(side)
    del big
    block(2 * GIB)
""",
    "leak": """
limit(3 * GIB)
kept = []
for step in range(200):
    gpumemprof.step()
    work = block(400 * MIB)
    kept.append(block(24 * MIB + step * 512))
    del work
""",
    "host_memory": """
keep = block(GIB)
torch.empty(1 << 50, dtype=torch.uint8)
""",
    "driver": """
keep = block(GIB)
assert take_outside(4 * total) != 0
raise RuntimeError('CUDA error: out of memory')
""",
    "caught": """
limit(4 * GIB)
size = 16 * GIB
while True:
    try:
        keep = block(size)
        break
    except torch.OutOfMemoryError:
        size //= 2
print('fits', size)
""",
    "second_device": """
keep = block(GIB)
torch.empty(MIB, device=f'cuda:{torch.cuda.device_count()}')
""",
    "backward": """
limit(2.8 * GIB)
x = torch.ones(GIB // 4, device='cuda', requires_grad=True)
y = x * x
y.sum().backward()
""",
    "optimizer": """
limit(3.5 * GIB)
p = torch.nn.Parameter(torch.ones(GIB // 4, device='cuda'))
optimizer = torch.optim.Adam([p], foreach=False)
p.grad = torch.ones_like(p)
optimizer.step()
""",
    "thread": """
limit(2 * GIB)
thread = threading.Thread(target=lambda: block(3 * GIB))
thread.start()
thread.join()
print('went on')
""",
    "started": """
limit(2 * GIB)
keep = block(GIB)
block(1.5 * GIB)
""",
    "variable": """
limit(2 * GIB)
keep = block(GIB)
block(1.5 * GIB)
""",
    "torchrun": """
limit(2 * GIB)
keep = block(GIB)
block(1.5 * GIB)
""",
}
CASES = {
    "limit": Case("a limit on this process refused", cause="limit"),
    "gaps": Case("gets past this request", cause="fragmentation"),
    "small_gaps": Case(
        "of memory: fragmentation: 1000 MiB in use and 2.00 GiB more would have fit, but not in "
        "one piece",
        cause="fragmentation",
    ),
    "other_process": Case(
        "other processes on the card hold", cause="other_processes", is_alone=True, holder=True
    ),
    "outside_pool": Case("outside PyTorch's pool", cause="outside_pool", is_alone=True),
    "shortage": Case("true shortage", cause="shortage", is_alone=True),
    "one_request": Case("one request for", cause="single_request", is_alone=True),
    "absurd": Case("alone is larger than the card", cause="larger_than_card"),
    "graph_pool": Case("only for a CUDA graph", cause="private_pool"),
    "deferred_frees": Case("a stream still used them", cause="deferred_frees", raises=""),
    "leak": Case("memory kept from step to step", cause="growth"),
    "host_memory": Case(
        "memory outside PyTorch's allocator ran out", raises="can't allocate memory"
    ),
    "driver": Case(
        "memory outside PyTorch's allocator ran out",
        raises="RuntimeError: CUDA error: out of memory",
    ),
    "caught": Case("out of memory: 16.00 GiB requested", cause="limit", code=0, raises="", pages=0),
    "second_device": Case("", raises="invalid device ordinal", pages=0),
    "backward": Case("a limit on this process refused", cause="limit"),
    "optimizer": Case("a limit on this process refused", cause="limit"),
    "thread": Case("a limit on this process refused", cause="limit", code=0),
    "started": Case("a limit on this process refused", cause="limit", how="start"),
    "variable": Case("a limit on this process refused", cause="limit", how="variable"),
    "torchrun": Case("a limit on this process refused", cause="limit", pages=2, how="torchrun"),
}


def command(name: str, folder: Path) -> tuple[list[str], dict[str, str]]:
    case = CASES[name]
    environment = {
        key: text for key, text in os.environ.items() if not key.startswith("GPUMEMPROF")
    }
    opening = OPENING
    if case.how == "start":
        opening += "recording = gpumemprof.start('out.gmp')\n"
    (folder / "train.py").write_text(opening + PROGRAMS[name])
    words = {
        "run": [sys.executable, "-m", "gpumemprof", "run", "-o", "out.gmp", "train.py"],
        "start": [sys.executable, "train.py"],
        "variable": [sys.executable, "train.py"],
        "torchrun": [
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--nproc-per-node",
            "2",
            "train.py",
        ],
    }[case.how]
    if case.how in ("variable", "torchrun"):
        environment["GPUMEMPROF"] = "1"
    return words, environment


def held_elsewhere() -> subprocess.Popen[str]:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    holder.stdout.readline()
    return holder


def recorded_cause(folder: Path) -> str | None:
    import warnings

    import gpumemprof

    causes = []
    for path in sorted(folder.glob("*.gmp")):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for device in gpumemprof.load(path).report(top=1)["devices"]:
                causes += [oom["cause"] for oom in device["oom_reports"]]
    return causes[-1] if causes else None


def check(name: str, root: Path) -> dict[str, object]:
    case = CASES[name]
    folder = root / name
    folder.mkdir()
    words, environment = command(name, folder)
    holder = held_elsewhere() if case.holder else None
    start = time.monotonic()
    try:
        done = subprocess.run(
            words, cwd=folder, env=environment, capture_output=True, text=True, timeout=80
        )
    except subprocess.TimeoutExpired:
        return {"wrong": ["took more than 80 s"]}
    finally:
        if holder is not None:
            holder.communicate("")
    seconds = time.monotonic() - start
    page = " ".join(re.sub(r"\[rank\d+\]:", " ", done.stderr).split())
    wrong = []
    if done.returncode != case.code:
        wrong.append(f"exit code {done.returncode}")
    if case.raises and case.raises not in done.stderr:
        wrong.append("another exception")
    if case.says and case.says not in page:
        wrong.append("does not say why")
    if (pages := page.count("The pool held ")) != case.pages:
        wrong.append(f"{pages} pages")
    if (cause := recorded_cause(folder)) != case.cause:
        wrong.append(f"the report says {cause}")
    result: dict[str, object] = {"wrong": wrong, "seconds": round(seconds, 1)}
    if wrong:
        result["stderr"] = done.stderr[-1500:]
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", choices=list(CASES))
    options = parser.parse_args()
    chosen = options.only or list(CASES)
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        shared = [case for case in chosen if not CASES[case].is_alone]
        with ThreadPoolExecutor(8) as pool:
            results = dict(zip(shared, pool.map(lambda case: check(case, root), shared)))
        for case in chosen:
            if CASES[case].is_alone:
                results[case] = check(case, root)
    right = sum(not result["wrong"] for result in results.values())
    summary = {
        "right": right,
        "cases": len(results),
        "seconds": round(time.monotonic() - start, 1),
        "results": {
            case: result if result["wrong"] else result["seconds"]
            for case, result in results.items()
        },
    }
    print(json.dumps(summary))


if __name__ == "__main__":
    main()
