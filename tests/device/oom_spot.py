"""Runs out of memory in many ways and checks what the failing program itself prints. Prints JSON.

Usage: python tests/device/oom_spot.py [--only CASE...]

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
    program: str
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


CASES = {
    "limit": Case(
        "limit(4 * GIB)\nkeep = block(3 * GIB)\nblock(2 * GIB)",
        "a limit on this process refused",
        "limit",
    ),
    "gaps": Case(
        # Four blocks share a segment; of each four one stays.
        "limit(4.25 * GIB)\nbits = [block(5 * MIB) for _ in range(800)]\nbits = bits[::4]\nblock(2 * GIB)",
        "gets past this request",
        "fragmentation",
    ),
    "other_process": Case(
        "keep = [block(GIB) for _ in range(3)]\nsettle()\nblock(6 * GIB)",
        "other processes on the card hold",
        "other_processes",
        is_alone=True,
        holder=True,
    ),
    "outside_pool": Case(
        "free, _ = torch.cuda.mem_get_info()\nassert take_outside(free - 2 * GIB) == 0\nsettle()\nblock(4 * GIB)",
        "outside PyTorch's pool",
        "outside_pool",
        is_alone=True,
    ),
    "shortage": Case(
        "free, _ = torch.cuda.mem_get_info()\nkeep = [block(free - 3 * GIB)]\nsettle()\nblock(4 * GIB)",
        "true shortage",
        "shortage",
        is_alone=True,
    ),
    "one_request": Case(
        "keep = [block(MIB * n) for n in range(1, 20)]\nsettle()\nblock(0.999 * total)",
        "one request for",
        "single_request",
        is_alone=True,
    ),
    "absurd": Case("block(2 * total)", "alone is larger than the card", "larger_than_card"),
    "graph_pool": Case(
        "limit(4 * GIB)\nstatic = torch.zeros(MIB, device='cuda')\ngraph = torch.cuda.CUDAGraph()\n"
        "with torch.cuda.graph(graph):\n    big = block(3 * GIB)\n    big.fill_(1)\n    del big\n"
        "block(2 * GIB)",
        "only for a CUDA graph",
        "private_pool",
    ),
    "deferred_frees": Case(
        "limit(4 * GIB)\nside = torch.cuda.Stream()\nbig = block(3 * GIB)\ngraph = torch.cuda.CUDAGraph()\n"
        "torch.cuda.synchronize()\n"
        "with torch.cuda.graph(graph):\n    big.record_stream(side)\n    del big\n    block(2 * GIB)",
        "a stream still used them",
        "deferred_frees",
        raises="",  # torch may raise another error when the capture ends
    ),
    "leak": Case(
        "limit(3 * GIB)\nkept = []\nfor step in range(200):\n    gpumemprof.step()\n"
        "    work = block(400 * MIB)\n    kept.append(block(24 * MIB + step * 512))\n    del work",
        "memory kept from step to step",
        "growth",
    ),
    "host_memory": Case(
        "keep = block(GIB)\ntorch.empty(1 << 50, dtype=torch.uint8)",
        "memory outside PyTorch's allocator ran out",
        raises="can't allocate memory",
    ),
    "driver": Case(
        "keep = block(GIB)\nassert take_outside(4 * total) != 0\nraise RuntimeError('CUDA error: out of memory')",
        "memory outside PyTorch's allocator ran out",
        raises="RuntimeError: CUDA error: out of memory",
    ),
    "caught": Case(
        "limit(4 * GIB)\nsize = 16 * GIB\nwhile True:\n    try:\n        keep = block(size)\n        break\n"
        "    except torch.OutOfMemoryError:\n        size //= 2\nprint('fits', size)",
        "out of memory: 16.00 GiB requested",
        "limit",
        code=0,
        raises="",
        pages=0,
    ),
    "second_device": Case(
        "keep = block(GIB)\ntorch.empty(MIB, device=f'cuda:{torch.cuda.device_count()}')",
        "",
        raises="invalid device ordinal",
        pages=0,
    ),
    "backward": Case(
        "limit(2.8 * GIB)\nx = torch.ones(GIB // 4, device='cuda', requires_grad=True)\ny = x * x\ny.sum().backward()",
        "a limit on this process refused",
        "limit",
    ),
    "optimizer": Case(
        "limit(3.5 * GIB)\np = torch.nn.Parameter(torch.ones(GIB // 4, device='cuda'))\n"
        "optimizer = torch.optim.Adam([p], foreach=False)\np.grad = torch.ones_like(p)\noptimizer.step()",
        "a limit on this process refused",
        "limit",
    ),
    "thread": Case(
        "limit(2 * GIB)\nthread = threading.Thread(target=lambda: block(3 * GIB))\nthread.start()\n"
        "thread.join()\nprint('went on')",
        "a limit on this process refused",
        "limit",
        code=0,
    ),
    "started": Case(
        "limit(2 * GIB)\nkeep = block(GIB)\nblock(1.5 * GIB)",
        "a limit on this process refused",
        "limit",
        how="start",
    ),
    "variable": Case(
        "limit(2 * GIB)\nkeep = block(GIB)\nblock(1.5 * GIB)",
        "a limit on this process refused",
        "limit",
        how="variable",
    ),
    "torchrun": Case(
        "limit(2 * GIB)\nkeep = block(GIB)\nblock(1.5 * GIB)",
        "a limit on this process refused",
        "limit",
        pages=2,
        how="torchrun",
    ),
}


def command(case: Case, folder: Path) -> tuple[list[str], dict[str, str]]:
    environment = {
        key: text for key, text in os.environ.items() if not key.startswith("GPUMEMPROF")
    }
    opening = OPENING
    if case.how == "start":
        opening += "recording = gpumemprof.start('out.gmp')\n"
    (folder / "train.py").write_text(opening + case.program + "\n")
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
    words, environment = command(case, folder)
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
    if (pages := page.count("In use: ")) != case.pages:
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
