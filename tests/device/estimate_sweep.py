"""Record what torch's CUDA kernels allocate: the truth for the rules of `estimate`.

Usage: python estimate_sweep.py OUT_FOLDER [SECONDS]     (about 4 minutes with the default of 190)
Runs several processes side by side and writes one .json.gz for each kind of op. Needs torch with a
GPU; torchvision is used where it is installed. `--device cpu` tries the cases without a GPU.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from estimate_cases import attention, convolution, matmul, modules, operators, reductions, rnn
from estimate_cases.record import Table, history, start_history

# part: number of processes that share its cases
PARTS = {
    "attention": 3,
    "convolution": 7,
    "matmul": 1,
    "rnn": 1,
    "reductions": 1,
    "modules": 2,
    "operators": 12,
    "graphs": 1,
}


def part_cases(part: str, device: str, shapes: Path) -> Iterator[Any]:
    if part == "convolution":
        listed = [
            tuple(tuple(x) if isinstance(x, list) else x for x in shape)
            for shape in json.loads(shapes.read_text())
        ]
        return convolution.cases(device, listed)
    sources = {
        "attention": attention,
        "matmul": matmul,
        "rnn": rnn,
        "reductions": reductions,
        "modules": modules,
        "operators": operators,
    }
    return sources[part].cases(device)


def warm_up(device: str) -> None:
    """Take the cuBLAS workspaces of both threads first, so that no case shows them."""
    net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 64)).to(device)
    x = torch.ones(64, 64, device=device, requires_grad=True)
    for _ in range(2):
        net(x).sum().backward()
        torch.bmm(x[None], x[None]).sum().backward()


def graph_pools() -> dict[str, Any]:
    """Segments and counters before, during and after the capture and replay of a training step."""
    net = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(6)]).cuda()
    optimizer = torch.optim.AdamW(net.parameters(), capturable=True)
    x = torch.ones(256, 512, device="cuda")
    result: dict[str, Any] = {}

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        net(x).square().mean().backward()
        optimizer.step()

    def mark(name: str) -> None:
        torch.cuda.synchronize()
        segments = [
            [s["segment_pool_id"], s["stream"], s["total_size"], s["allocated_size"]]
            for s in torch.cuda.memory._snapshot()["segments"]
        ]
        allocated, reserved = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
        result[name] = {
            "segments": segments,
            "allocated": allocated,
            "reserved": reserved,
            "events": history(),
        }

    start_history()
    mark("start")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    mark("warm")
    graph = torch.cuda.CUDAGraph()
    optimizer.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        step()
    mark("captured")
    for _ in range(3):
        graph.replay()
    mark("replayed")
    second = torch.cuda.CUDAGraph()
    with torch.cuda.graph(second, pool=graph.pool()):
        step()
    mark("shared pool")
    del graph, second
    torch.cuda.empty_cache()
    mark("deleted")
    return result


def work(part: str, shard: int, seconds: float, device: str, out: Path, shapes: Path) -> None:
    started = time.monotonic()
    if part == "graphs":
        out.write_text(json.dumps(graph_pools()))
        return
    table = Table()
    if part != "matmul":
        warm_up(device)
    done = 0
    saved = started
    for name, setup in itertools.islice(part_cases(part, device, shapes), shard, None, PARTS[part]):
        table.run(name, setup)
        done += 1
        if device == "cuda" and torch.cuda.memory_reserved() > 12 << 30:
            torch.cuda.empty_cache()
        now = time.monotonic()
        if now - started > seconds:
            break
        if now - saved > 5:  # what is known so far survives a case that never returns
            save(table, out)
            saved = now
    print(
        f"{part} {shard}: {done} cases, {len(table.ops)} ops, {len(table.errors)} errors,"
        f" {time.monotonic() - started:.0f} s",
        flush=True,
    )
    save(table, out)


def save(table: Table, out: Path) -> None:
    result = {"ops": table.ops, "cases": table.cases, "errors": table.errors}
    part = out.with_suffix(".part")
    part.write_text(json.dumps(result, separators=(",", ":")))
    part.replace(out)


def environment() -> dict[str, Any]:
    found: dict[str, Any] = {"torch": torch.__version__, "cudnn": torch.backends.cudnn.version()}
    if torch.cuda.is_available():
        properties = torch.cuda.get_device_properties(0)
        found.update(
            name=properties.name,
            capability=[properties.major, properties.minor],
            multiprocessors=properties.multi_processor_count,
            total_bytes=properties.total_memory,
            cuda=torch.version.cuda,
        )
    return found


def join(part: str, files: list[Path], facts: dict[str, Any], out: Path) -> None:
    """One compressed file for each part; the op numbers of a process follow those before it."""
    ops: list[Any] = []
    cases: list[Any] = []
    errors: dict[str, str] = {}
    for path in files:
        if not path.exists():
            print("no result:", path.name, flush=True)
            continue
        found = json.loads(path.read_text())
        path.unlink()
        if part == "graphs":
            ops = found
            continue
        base = len(ops)
        ops += found["ops"]
        cases += [[case[0], [base + n for n in case[1]], *case[2:]] for case in found["cases"]]
        errors.update(found["errors"])
    result = {"environment": facts, "ops": ops, "cases": cases, "errors": errors}
    with gzip.open(out / f"{part}.json.gz", "wt") as file:
        json.dump(result, file, separators=(",", ":"))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("seconds", type=float, nargs="?", default=190)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--only", nargs="*", help="parts, each with processes: rnn=8 reductions=4")
    parser.add_argument("--part")
    parser.add_argument("--shard", type=int, default=0)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    shapes = options.out / "shapes.tmp"
    if options.only:
        PARTS.clear()
        PARTS.update({part: int(count) for part, count in (x.split("=") for x in options.only)})
    if options.part:
        target = options.out / f"{options.part}-{options.shard}.tmp"
        work(options.part, options.shard, options.seconds, options.device, target, shapes)
        return
    found = {}
    if "convolution" in PARTS:
        found = dict.fromkeys(convolution.of_classifiers() + list(convolution.hand_written()))
    shapes.write_text(json.dumps(list(found)))
    print(len(found), "convolution shapes", environment(), flush=True)
    running = []
    for part, count in PARTS.items():
        for shard in range(count):
            # a process of its own each: a crash or a hang costs only its share
            command = [
                sys.executable,
                __file__,
                str(options.out),
                str(options.seconds),
                "--device",
                options.device,
                "--part",
                part,
                "--shard",
                str(shard),
                "--only",
                *(f"{name}={number}" for name, number in PARTS.items()),
            ]
            running.append(subprocess.Popen(command))
    limit = time.monotonic() + options.seconds + 60
    for process in running:
        try:
            process.wait(max(1.0, limit - time.monotonic()))
        except subprocess.TimeoutExpired:  # noqa: PERF203
            process.kill()
    for part, count in PARTS.items():
        join(
            part,
            [options.out / f"{part}-{n}.tmp" for n in range(count)],
            environment(),
            options.out,
        )
    for rest in (*options.out.glob("*.tmp"), *options.out.glob("*.part")):
        rest.unlink()


if __name__ == "__main__":
    main()
