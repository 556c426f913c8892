"""Runs the programs of tests/data/estimate on a GPU and writes the allocator's own peaks as JSON.

usage: python tests/device/estimate_truth.py [--set open|blind|...|blind_nine|all]
                                             [--only NAME...] [--history NAME...] [--out FOLDER]

Every program is a process of its own and runs unedited; several run at once, which leaves the
counters of each allocator as they are. `truth.json` has, for each program, the peaks of allocated
and reserved bytes, cudaMalloc retries, errors of memory, the exit code and the seconds. With
`--history`, NAME.pickle.gz is the memory snapshot of that run with its history.

Programs of the blind sets are predicted before their truth is known; the commands are in
bench/estimate/estimate_programs.py. `--without-peaks` only tells whether programs run. With
`--on-cpu`, they run with small sizes on the CPU, to find their mistakes without a GPU.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import importlib.abc
import importlib.machinery
import json
import os
import pickle
import runpy
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any, Callable

# At the end: programs import nothing from there.
sys.path.append(str(Path(__file__).resolve().parents[2] / "bench" / "estimate"))

from estimate_programs import read_programs, sets, unpack

LIMIT_SECONDS = 60
SIDE_BY_SIDE = 6
HISTORY_ENTRIES = 400_000
PEAKS = {
    "peak_allocated_bytes": "allocated_bytes.all.peak",
    "peak_reserved_bytes": "reserved_bytes.all.peak",
    "peak_requested_bytes": "requested_bytes.all.peak",
}
COUNTS = {"retries": "num_alloc_retries", "ooms": "num_ooms", "device_allocs": "num_device_alloc"}


class Peaks:
    """The largest peaks of the process, also when the program resets torch's."""

    def __init__(self) -> None:
        self.largest = dict.fromkeys(PEAKS, 0)

    def read(self) -> dict[str, int]:
        torch = sys.modules.get("torch")
        if torch is None or not torch.cuda.is_initialized():
            return {}
        stats = torch.cuda.memory_stats(0)
        for name, key in PEAKS.items():
            self.largest[name] = max(self.largest[name], stats.get(key, 0))
        return stats

    def keep_on_reset(self, memory: ModuleType) -> None:
        reset = memory.reset_peak_memory_stats

        def reset_peak_memory_stats(device: Any = None) -> None:
            self.read()
            reset(device)

        memory.reset_peak_memory_stats = reset_peak_memory_stats  # type: ignore[attr-defined]


class AfterImport(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Calls a function once a module has been imported, so that the program imports torch itself.

    A program may set PYTORCH_CUDA_ALLOC_CONF before that import.
    """

    def __init__(self, name: str, action: Callable[[ModuleType], None]) -> None:
        self.name, self.action = name, action
        self.loader: Any = None

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name != self.name:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None:
            self.loader, spec.loader = spec.loader, self
        return spec

    def exec_module(self, module: ModuleType) -> None:
        self.loader.exec_module(module)
        self.action(module)


def run_program(path: Path, arguments: list[str]) -> int:
    sys.argv = [str(path), *arguments]
    sys.path[0] = str(path.parent)
    try:
        runpy.run_path(str(path), run_name="__main__")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def launch(result: Path, history: str, path: Path, arguments: list[str]) -> int:
    """Runs one program in this process and writes its counters when it ends."""
    peaks = Peaks()
    sys.meta_path.insert(0, AfterImport("torch.cuda.memory", peaks.keep_on_reset))
    if history:
        import torch

        torch.cuda.init()
        torch.cuda.memory._record_memory_history(max_entries=HISTORY_ENTRIES, stacks="python")
    started = time.perf_counter()
    exit_code = run_program(path, arguments)
    facts: dict[str, Any] = {"exit_code": exit_code, "seconds": time.perf_counter() - started}
    stats = peaks.read()
    facts.update(peaks.largest if stats else dict.fromkeys(PEAKS))
    facts.update({name: stats.get(key) for name, key in COUNTS.items()})
    if history:
        with gzip.open(history, "wb", compresslevel=6) as file:
            pickle.dump(torch.cuda.memory._snapshot(), file)
    result.write_text(json.dumps(facts))
    return exit_code


def launch_on_cpu(path: Path, arguments: list[str]) -> int:
    """Runs one program with every "cuda" taken as "cpu"."""
    import torch
    from torch.overrides import TorchFunctionMode

    def on_cpu(value: Any) -> Any:
        is_cuda = isinstance(value, (str, torch.device)) and str(value).startswith("cuda")
        return torch.device("cpu") if is_cuda else value

    class OnCpu(TorchFunctionMode):
        def __torch_function__(
            self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
        ) -> Any:
            if func is torch.Tensor.cuda:
                return args[0]
            if func is torch.Tensor.pin_memory:
                return args[0]
            named = {key: on_cpu(value) for key, value in (kwargs or {}).items()}
            return func(*(on_cpu(value) for value in args), **named)

    def nothing(*_: Any, **__: Any) -> int:
        return 0

    for name in ("synchronize", "empty_cache", "reset_peak_memory_stats", "memory_allocated"):
        setattr(torch.cuda, name, nothing)
    for name in ("max_memory_allocated", "max_memory_reserved", "set_per_process_memory_fraction"):
        setattr(torch.cuda, name, nothing)
    generator = torch.Generator

    # A class, because torch's own annotations name torch.Generator.
    class GeneratorOnCpu(generator):
        def __new__(cls, device: Any = "cpu") -> Any:
            return generator(on_cpu(device))

    torch.Generator = GeneratorOnCpu  # type: ignore
    with OnCpu():
        return run_program(path, arguments)


def run_one(program: dict[str, Any], options: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    """The folder has the programs too."""
    name = program["name"]
    result = scratch / f"{name}.json"
    command = [sys.executable, __file__, "--child", str(result)]
    if options.on_cpu:
        command.append("--on-cpu")
    if name in options.history:
        command += ["--history", str(options.out / f"{name}.pickle.gz")]
    command += ["--", str(scratch / program["path"])]
    command += program["tiny"] if options.on_cpu else []
    environment = {**os.environ, "OMP_NUM_THREADS": "2", "TMPDIR": str(scratch)}
    environment["TORCHINDUCTOR_CACHE_DIR"] = str(scratch / f"inductor-{name}")
    started = time.perf_counter()
    limit = program.get("limit_seconds", LIMIT_SECONDS)
    output = scratch / f"{name}.log"
    with output.open("wb") as log:
        try:
            code: int | None = subprocess.run(
                command, stdout=log, stderr=subprocess.STDOUT, env=environment, timeout=limit
            ).returncode
        except subprocess.TimeoutExpired:
            code = None
    facts: dict[str, Any] = {"kind": program["kind"], "set": program["set"], "exit_code": code}
    with contextlib.suppress(OSError):
        facts.update(json.loads(result.read_text()))
    if options.without_peaks:
        facts = {name: fact for name, fact in facts.items() if name not in PEAKS | COUNTS}
    facts["process_seconds"] = time.perf_counter() - started
    facts["output"] = output.read_text(errors="replace")[-(400 if code == 0 else 4000) :]
    return facts


def describe(name: str, facts: dict[str, Any]) -> str:
    if facts["exit_code"] != 0:
        end = "ran too long" if facts["exit_code"] is None else f"exit code {facts['exit_code']}"
        return f"FAIL  {name:<28} {end}\n{facts['output']}"
    allocated, reserved = facts.get("peak_allocated_bytes"), facts.get("peak_reserved_bytes")
    sizes = f"{allocated / 2**30:7.3f} GiB {reserved / 2**30:7.3f} GiB" if allocated else ""
    return f"ok    {name:<28} {sizes}  {facts.get('seconds', facts['process_seconds']):6.1f} s"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--set", choices=[*sets(), "all"], default="all")
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--without-peaks", action="store_true")
    parser.add_argument("--history", nargs="*", default=[])
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", ".")))
    parser.add_argument("--jobs", type=int, default=SIDE_BY_SIDE)
    parser.add_argument("--on-cpu", action="store_true")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    programs = read_programs(options.set, options.only)
    # The long ones first, so that none is left alone at the end.
    programs.sort(key=lambda program: -program.get("limit_seconds", LIMIT_SECONDS))
    results: dict[str, Any] = {}
    writing = threading.Lock()

    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        unpack(programs, Path(folder))

        def run_and_print(program: dict[str, Any]) -> None:
            facts = run_one(program, options, Path(folder))
            with writing:
                results[program["name"]] = facts
                print(describe(program["name"], facts), flush=True)
                write(options.out, results)

        list(pool.map(run_and_print, programs))
    failed = [name for name, facts in results.items() if facts["exit_code"] != 0]
    print(
        f"{len(results) - len(failed)} of {len(results)} ran; failed: {', '.join(failed) or 'none'}"
    )
    return 1 if failed else 0


def write(out: Path, results: dict[str, Any]) -> None:
    # After every program, so that a run that is stopped keeps what it has.
    import torch

    gpu = torch.cuda.get_device_properties(0) if torch.cuda.is_available() else None
    truth = {
        "torch": torch.__version__,
        "gpu": gpu.name if gpu else None,
        "total_bytes": gpu.total_memory if gpu else None,
        "programs": dict(sorted(results.items())),
    }
    part = out / "truth.json.part"
    part.write_text(json.dumps(truth, indent=1))
    part.replace(out / "truth.json")


def child(arguments: list[str]) -> int:
    split = arguments.index("--")
    options, (path, *rest) = arguments[:split], arguments[split + 1 :]
    if "--on-cpu" in options:
        return launch_on_cpu(Path(path), rest)
    history = options[options.index("--history") + 1] if "--history" in options else ""
    return launch(Path(options[0]), history, Path(path), rest)


if __name__ == "__main__":
    sys.exit(child(sys.argv[2:]) if sys.argv[1:2] == ["--child"] else main())
