"""The measured breakdown against the ground truth: the storages of tensors, and NVML.

``sources.py case MODEL PRECISION OPTIMIZER`` records one training run and prints one line of JSON;
``sources.py gap`` compares the table from the pool to the card with NVML; ``sources.py`` alone runs
everything and prints a table. The cost of labels is measured in overhead.py.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import gpumemprof
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own custom
from source_models import MAKERS
from torch import nn

HERE = Path(__file__).resolve().parent
MODELS = ("gpt2", "resnet50", "unet", "own")
PRECISIONS = ("fp32", "autocast", "checkpointed")
OPTIMIZERS = ("adamw", "sgd")
STEPS = 6
MOST_UNKNOWN = 0.01
LIMIT_SECONDS = 300
FOLDER = Path(tempfile.mkdtemp())


# ---- the ground truth ----------------------------------------------------------------------------


def storage_bytes(tensors: Iterable[torch.Tensor]) -> int:
    storages = {}
    for tensor in tensors:
        if tensor.is_cuda:
            storage = tensor.untyped_storage()
            storages[storage.data_ptr()] = storage.nbytes()
    storages.pop(0, None)
    return sum(storages.values())


def truth_of(model: nn.Module, optimizer: Any, inputs: dict[str, torch.Tensor]) -> dict[str, int]:
    state = [
        value
        for values in optimizer.state.values()
        for value in values.values()
        if isinstance(value, torch.Tensor)
    ]
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    return {
        "parameters": storage_bytes(model.parameters()),
        "buffers": storage_bytes(model.buffers()),
        "gradients": storage_bytes(gradients),
        "optimizer_state": storage_bytes(state),
        "inputs": storage_bytes(inputs.values()),
    }


def found_in(recording: gpumemprof.Recording) -> dict[str, int]:
    """What the recording says is live at its end: by the report, and buffers by their labels."""
    (device,) = (d for d in recording.report(at="end")["devices"] if d["device"] == "cuda:0")
    buffers = sum(
        label.requested_bytes
        for label in recording.labels()
        if label.is_buffer and label.free_requested_event is None
    )
    at_end = device["at"]["sources"]
    return {
        "parameters": at_end["parameters"] - buffers,
        "buffers": buffers,
        **{name: at_end[name] for name in ("gradients", "optimizer_state", "inputs")},
    }


def train(model: str, precision: str, optimizer_name: str) -> tuple[Any, Any, Any, dict[str, int]]:
    torch.manual_seed(0)
    module, batch, loss = MAKERS[model](precision == "checkpointed")
    trainable = [p for p in module.parameters() if p.requires_grad]
    optimizer: Any = (
        torch.optim.AdamW(trainable)
        if optimizer_name == "adamw"
        else torch.optim.SGD(trainable, lr=1e-3, momentum=0.9)
    )
    casts = torch.autocast("cuda", torch.bfloat16) if precision == "autocast" else nullcontext()
    inputs: dict[str, torch.Tensor] = {}
    for step in range(STEPS):
        inputs = batch()
        with casts:
            value = loss(module, inputs)
        value.backward()
        optimizer.step()
        if step + 1 < STEPS:
            optimizer.zero_grad()
        del value
    return module, optimizer, inputs, truth_of(module, optimizer, inputs)


def case(model: str, precision: str, optimizer_name: str) -> dict[str, Any]:
    path = FOLDER / "case.gmp"
    with warnings.catch_warnings():
        warnings.simplefilter("error", gpumemprof.RecordingWarning)
        with gpumemprof.record(path, overwrite=True) as recording:
            kept = train(model, precision, optimizer_name)
    torch_peak = torch.cuda.max_memory_allocated()
    del recording
    read = gpumemprof.load(path)
    (device,) = (d for d in read.report()["devices"] if d["device"] == "cuda:0")
    found, truth = found_in(read), kept[3]
    wrong = [
        f"{source} {found[source]:,} of {truth[source]:,}"
        for source in truth
        if found[source] != truth[source]
    ]
    if device["peak"]["allocated_bytes"] != torch_peak:
        wrong.append(f"peak {device['peak']['allocated_bytes']:,} of {torch_peak:,}")
    sources = device["sources"]
    by_source = {
        name: figure["bytes_at_peak"]
        for name, figure in sources.items()
        if isinstance(figure, dict) and "bytes_at_peak" in figure
    }
    return {
        "wrong": wrong,
        "truth": truth,
        "found": found,
        "peak": torch_peak,
        "at_peak": by_source,
        "provenance": {n: sources[n].get("provenance") for n in by_source},
        "unknown": by_source["unknown"] / torch_peak,
    }


# ---- the gap -------------------------------------------------------------------------------------


class MemoryInfo(ctypes.Structure):
    _fields_ = [
        ("version", ctypes.c_uint),
        ("total", ctypes.c_ulonglong),
        ("reserved", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    ]


class ProcessInfo(ctypes.Structure):
    _fields_ = [
        ("pid", ctypes.c_uint),
        ("used", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    ]


def ask_nvml() -> dict[str, int | None]:
    nvml = ctypes.CDLL("libnvidia-ml.so.1")
    assert nvml.nvmlInit_v2() == 0
    handle = ctypes.c_void_p()
    uuid = str(torch.cuda.get_device_properties(0).uuid)
    name = uuid if uuid.startswith("GPU-") else f"GPU-{uuid}"
    assert nvml.nvmlDeviceGetHandleByUUID(name.encode(), ctypes.byref(handle)) == 0
    info = MemoryInfo(version=ctypes.sizeof(MemoryInfo) | (2 << 24))
    assert nvml.nvmlDeviceGetMemoryInfo_v2(handle, ctypes.byref(info)) == 0
    processes = (ProcessInfo * 128)()
    count = ctypes.c_uint(128)
    assert nvml.nvmlDeviceGetComputeRunningProcesses_v3(handle, ctypes.byref(count), processes) == 0
    mine = [p.used for p in processes[: count.value] if p.pid == os.getpid()]
    return {
        "total": info.total,
        "used": info.used,
        "firmware": info.reserved,
        "process": mine[0] if mine else None,
        "pids": count.value,
    }


def gap() -> dict[str, Any]:
    path = FOLDER / "gap.gmp"
    with gpumemprof.record(path, overwrite=True):
        kept = [torch.empty(4 << 20, dtype=torch.uint8, device="cuda")]
        time.sleep(0.3)
        kept.append(kept[0].float() + 1)
        torch.cuda.synchronize()
        time.sleep(0.3)
        a = torch.randn(1024, 1024, device="cuda")
        kept.append(a @ a)
        torch.cuda.synchronize()
        time.sleep(0.3)
        kept.append(
            F.conv2d(
                torch.randn(4, 16, 64, 64, device="cuda"), torch.randn(8, 16, 3, 3, device="cuda")
            )
        )
        torch.cuda.synchronize()
        time.sleep(0.3)
        kept.append(torch.linalg.inv(a))
        torch.cuda.synchronize()
        time.sleep(1.2)
        truth = ask_nvml()
        reserved = torch.cuda.memory_reserved()
        allocated = torch.cuda.memory_allocated()
    (device,) = (d for d in gpumemprof.load(path).report()["devices"] if d["device"] == "cuda:0")
    found = device["gap"]
    wrong = []

    def compare(what: str, ours: int | None, theirs: int | None) -> None:
        if ours != theirs:
            wrong.append(f"{what} {ours} of {theirs}")

    if found is None:
        return {"wrong": ["no sample of the card"], "truth": truth, "gap": None}
    card, pool, outside = found["card"], found["pool"], found["outside"]
    compare("total", card["total_bytes"], truth["total"])
    compare("used", card["used_bytes"], truth["used"])
    compare("firmware", card["firmware_bytes"], truth["firmware"])
    compare("process", card["process_bytes"], truth["process"])
    compare("reserved", pool["reserved_bytes"], reserved)
    compare("allocated", pool["allocated_bytes"], allocated)
    parts = ("allocated_bytes", "waiting_bytes", "cached_bytes", "split_bytes")
    compare("sum of the pool", sum(pool[part] for part in parts), reserved)
    if truth["process"] is not None:
        kinds = sum(kind["bytes"] for kind in outside["by_kind"].values())
        compare("sum of the process", pool["reserved_bytes"] + kinds, truth["process"])
        rows = ("process_bytes", "other_processes_bytes", "driver_bytes", "firmware_bytes")
        total = sum(card[row] for row in rows) + card["free_bytes"]
        compare("sum of the card", total, truth["total"])
    return {"wrong": wrong, "truth": truth, "gap": found}


# ---- everything ----------------------------------------------------------------------------------


def ask(*words: str) -> dict[str, Any]:
    try:
        done = subprocess.run(
            [sys.executable, __file__, *words],
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
            cwd=HERE,
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"{' '.join(words)}: ran longer than {LIMIT_SECONDS} s"}
    if done.returncode != 0 or not done.stdout.strip():
        told = f"{done.stdout[-2000:]}{done.stderr[-6000:]}"
        return {"failed": f"exit code {done.returncode}\n{told}"}
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def cases() -> list[tuple[str, str, str]]:
    return [(m, p, o) for m in MODELS for p in PRECISIONS for o in OPTIMIZERS]


def everything() -> int:
    failures = 0
    print(f"{'case':<32} {'peak MiB':>9} {'unknown':>8}  result")
    for words in cases():
        result = ask("case", *words)
        name = " ".join(words)
        if "failed" in result:
            failures += 1
            print(f"{name:<32} {'':>9} {'':>8}  FAILED\n{result['failed']}", flush=True)
            continue
        is_good = not result["wrong"] and result["unknown"] < MOST_UNKNOWN
        failures += not is_good
        told = "ok" if is_good else "WRONG: " + "; ".join(result["wrong"])
        share = f"{result['unknown']:.2%}"
        print(f"{name:<32} {result['peak'] / 2**20:>9.1f} {share:>8}  {told}")
        if not is_good:
            print(json.dumps(result, indent=1), flush=True)
    result = ask("gap")
    print(f"\ngap: {json.dumps(result, indent=1)}", flush=True)
    failures += "failed" in result or bool(result.get("wrong"))
    print(f"\n{failures} failed")
    return 1 if failures else 0


def main() -> int:
    words = sys.argv[1:]
    if not words:
        return everything()
    try:
        result = case(*words[1:]) if words[0] == "case" else gap()
    except Exception:
        traceback.print_exc()
        return 1
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
