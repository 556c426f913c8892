"""What recordings say of many kinds of training programs, against what the programs' tensors held.

usage: python bench/program_sources.py [--only NAME ...] [--rows NAME]

Records every program in bench/training_programs with CPU tensors, those with several processes
under torchrun. Compares parameters (with buffers), gradients, optimizer state and inputs with the
bytes of the tensors' storages at every moment the program reported: as measured, by the recording's
labels, and as inferred, from the recording converted to a plain PyTorch snapshot. Shows the largest
errors in percent of the most that the kind truly held, or of the peak if it held nothing. With
several processes the worst counts. --rows lists what differs in one program, moment by moment.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import pickle
import subprocess
import sys
import tempfile
import traceback
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import gpumemprof
import numpy as np
import pyarrow as pa
from source_accuracy import NO_EVENT, Lives, allocated_after_each, lives_of

KINDS = ["parameters", "gradients", "optimizer_state", "inputs"]
Moments = list[dict[str, int]]


class Compared(NamedTuple):
    """In percent."""

    parameters: float
    gradients: float
    optimizer_state: float
    inputs: float
    unknown_at_peak: float


def record_program(name: str, folder: Path) -> None:
    """In a separate process: run one program under a recording."""
    import torch
    import training_programs

    torch.manual_seed(0)
    torch.set_num_threads(1)
    program = {**training_programs.PROGRAMS, **training_programs.SHARDED}[name]
    report = training_programs.Reporter()
    stem = f"{name}.rank{os.environ.get('RANK', '0')}"
    (folder / f"{stem}.gmp").unlink(missing_ok=True)
    with gpumemprof.record(folder / f"{stem}.gmp", cpu=True):
        program(report)
    report.write(folder / f"{stem}.json")


def record_here(names: list[str], folder: Path) -> int:
    """Run each program in its own fork; those with several processes share a process group."""
    if "RANK" in os.environ:
        for name in names:
            record_program(name, folder)
            gc.collect()
        return 0
    import torch  # noqa: F401  (once for all of them)

    for name in names:
        child = os.fork()
        if child == 0:
            try:
                record_program(name, folder)
            except BaseException:
                traceback.print_exc()
                sys.stderr.flush()
                os._exit(1)
            os._exit(0)
        os.waitpid(child, 0)
    return 0


def record_all(names: list[str], folder: Path, is_sharded: bool) -> list[str]:
    """Run programs in one more process, or in two at once; returns those that failed."""
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node", "2"] if is_sharded else []
    command = [sys.executable, *launcher, __file__, "--record", str(folder), "--only", *names]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    failed = [name for name in names if not list(folder.glob(f"{name}.rank*.json"))]
    if failed:
        print(done.stderr[-3000:], file=sys.stderr)
    return failed


def events_of(recording: gpumemprof.Recording, moments: Moments) -> list[int]:
    """The last event before each moment."""
    times = pa.table(recording.events)["time_ns"].to_numpy()
    return [int(np.searchsorted(times, moment["time_ns"])) - 1 for moment in moments]


def compare(lives: Lives, events: list[int], moments: Moments) -> Compared:
    last_death = lives.death[lives.death != NO_EVENT].max(initial=0)
    totals = allocated_after_each(lives, int(max(lives.birth.max(), last_death)) + 1)
    peak_event, peak_bytes = int(totals.argmax()), int(totals.max())
    worst = dict.fromkeys(KINDS, 0.0)
    for event, moment in zip(events, moments):
        for kind in KINDS:
            difference = abs(lives.held(event, kind) - moment[kind])
            most = max(other[kind] for other in moments) or peak_bytes
            worst[kind] = max(worst[kind], 100.0 * difference / most)
    unknown = lives.held(peak_event, "unknown")
    return Compared(*worst.values(), 100.0 * unknown / peak_bytes)


def as_snapshot(path: Path) -> gpumemprof.Recording:
    """The same recording as a GPU snapshot would have it, without labels."""
    out = path.with_suffix(".pickle")
    command = [sys.executable, "-m", "gpumemprof", "convert", str(path), "--to", "torch-snapshot"]
    subprocess.run([*command, "-f", str(out)], check=True, capture_output=True)
    content = pickle.loads(out.read_bytes())
    (trace,) = (trace for trace in content["device_traces"] if trace)
    place_as_on_a_gpu(content, trace)
    for event in trace:
        event["frames"] = frames_as_on_a_gpu(event.get("frames", []))
    out.write_bytes(pickle.dumps(content))
    return gpumemprof.load(out)


def place_as_on_a_gpu(content: dict[str, Any], trace: list[dict[str, Any]]) -> None:
    """Spread the blocks out: CPU blocks are closer together than the caching allocator's can be."""
    live: dict[int, dict[str, Any]] = {}
    place = 1 << 40
    for event in trace:
        if event["action"] == "alloc":
            live[event["addr"]] = event
            event["addr"] = place
            place += (event["size"] // 512 + 2) * 512
        else:
            old = event["addr"]
            event["addr"] = live[old]["addr"]
            if event["action"] == "free_completed":
                del live[old]
    content["segments"] = [
        {
            "device": 0,
            "address": event["addr"],
            "total_size": (event["size"] // 512 + 1) * 512,
            "allocated_size": (event["size"] // 512 + 1) * 512,
            "active_size": (event["size"] // 512 + 1) * 512,
            "stream": 0,
            "segment_type": "large",
            "is_expandable": False,
            "frames": [],
            "blocks": [
                {
                    "address": event["addr"],
                    "size": (event["size"] // 512 + 1) * 512,
                    "requested_size": event["size"],
                    "state": "active_allocated",
                    "frames": [],
                }
            ],
        }
        for event in live.values()
    ]


def frames_as_on_a_gpu(frames: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """On a GPU, backward runs in autograd's own threads, and function names are not qualified."""
    found = []
    for frame in frames:
        name = frame["name"].rpartition(".")[2]
        if name == "_engine_run_backward":
            break
        found.append({**frame, "name": name})
    return found


def compare_program(name: str, folder: Path) -> tuple[Compared, Compared]:
    """The measured and the inferred breakdown, the worst of all processes."""
    measured, inferred = [], []
    for path in sorted(folder.glob(f"{name}.rank*.gmp")):
        moments: Moments = json.loads(path.with_suffix(".json").read_text())
        recording = gpumemprof.load(path)
        events = events_of(recording, moments)
        measured.append(compare(lives_of(recording), events, moments))
        inferred.append(compare(lives_of(as_snapshot(path)), events, moments))
    return Compared(*map(max, zip(*measured))), Compared(*map(max, zip(*inferred)))


def print_rows(name: str, folder: Path, is_snapshot: bool, rank: int) -> None:
    """Print everything live at each moment that differs, by source, name, size and stack."""
    path = folder / f"{name}.rank{rank}.gmp"
    moments: Moments = json.loads(path.with_suffix(".json").read_text())
    recording = gpumemprof.load(path)
    events = events_of(recording, moments)
    if is_snapshot:
        recording = as_snapshot(path)
    lives = lives_of(recording)
    stacks = pa.table(recording.allocations)["stack"]
    names = {(label.alloc_event, label.address): label.name for label in recording.labels()}
    addresses = pa.table(recording.allocations)["address"]
    shown = 0
    for number, (event, moment) in enumerate(zip(events, moments)):
        wrong = [kind for kind in KINDS if lives.held(event, kind) != moment[kind]]
        for kind in wrong:
            held = lives.held(event, kind)
            print(f"moment {number}, event {event}: {kind} {held:,} instead of {moment[kind]:,}")
        if (wrong and shown < 2) or number == len(moments) - 1:
            shown += 1
            live = np.flatnonzero((lives.birth <= event) & (lives.death > event))
            rows = Counter(
                (
                    str(lives.source[row]),
                    names.get((int(lives.birth[row]), addresses[int(row)].as_py())) or "",
                    int(lives.requested[row]),
                    stack_text(recording, stacks[int(row)].as_py()),
                )
                for row in live
            )
            for (source, label, size, stack), count in sorted(rows.items(), key=str):
                print(f"    {count} x {source:16} {label:30} {size:9,} {stack}")


def stack_text(recording: gpumemprof.Recording, stack: int | None) -> str:
    frames = [] if stack is None else list(recording.stack(stack))[:6]
    return " < ".join(f"{frame.name}:{frame.line}" for frame in frames) or "(no stack)"


def print_table(names: list[str], folder: Path) -> None:
    head = ["parameters", "gradients", "optimizer state", "inputs", "unknown"]
    print("| program | " + " | ".join(head) + " | inferred: " + " | ".join(head) + " |")
    print("|---" * 11 + "|")
    for name in names:
        cells = [f"{figure:.2f}" for figures in compare_program(name, folder) for figure in figures]
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these programs")
    parser.add_argument("--rows", metavar="NAME", help="what differs in this program")
    parser.add_argument("--inferred", action="store_true", help="--rows of the snapshot")
    parser.add_argument("--rank", type=int, default=0, help="--rows of this process")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="record into this folder")
    parser.add_argument("--again", action="store_true", help="what --keep has recorded already")
    parser.add_argument("--record", type=Path, metavar="FOLDER", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.record is not None:
        return record_here(arguments.only, arguments.record)
    import training_programs

    wanted = [arguments.rows] if arguments.rows else arguments.only
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.keep or Path(temporary)
        folder.mkdir(exist_ok=True)
        done = []
        for programs, is_sharded in (
            (training_programs.PROGRAMS, False),
            (training_programs.SHARDED, True),
        ):
            names = [name for name in programs if wanted is None or name in wanted]
            failed = []
            if names and not arguments.again:
                failed = record_all(names, folder, is_sharded)
            if arguments.again:
                names = [name for name in names if list(folder.glob(f"{name}.rank*.json"))]
            for name in failed:
                print(f"{name} failed", file=sys.stderr)
            done += [name for name in names if name not in failed]
        if arguments.rows:
            print_rows(arguments.rows, folder, arguments.inferred, arguments.rank)
        else:
            print_table(done, folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
