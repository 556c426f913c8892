"""What ``keep=`` costs compared with recording to one file: the program's time, and memory.

Chapters end ten times as often as usual here (every 100,000 events), so what is found is at least
what a user pays. All measurements alternate between one file, one file again and a folder of
chapters, in blocks of a fraction of a second (``blocks.py``):

``event``     what an event costs the thread that allocates: its own processor time, on a core of
              its own, in short bursts. Each burst is measured against a loop that allocates
              nothing and runs right before and after it, so that a core that is slower for a
              while changes neither. Its instructions too, where they can be counted.
``host``      a training step that is host-bound: its time, and the processor time of the program's
              own threads (all but the recorder's).
``realistic`` a training step of a usual size, which the card bounds: its time.

The verdict is about the steps: what an event costs more, times the events of a step, as a share of
the step, with its 95 % interval. The differences of whole steps stand beside it; they are noisier.
Memory is that of processes of their own, which allocate in a loop and keep some: what they have at
the end more than before they started to record. Prints one line of JSON.

Usage: flight_recorder.py [--cpu] [--seconds N]
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Callable

os.environ["GPUMEMPROF_CHAPTER_EVENTS"] = "100000"
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import gpumemprof
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own custom
from blocks import (
    KEEP,
    Figures,
    OwnCore,
    Recorded,
    Rounds,
    middle_mean,
    processor_seconds,
)
from instructions import InstructionCounter
from workloads import Gpt

BAR = 0.002  # of a step
BURSTS = 60
BURST_PAIRS = 400
REFERENCE_TURNS = 6_000
WARM_STEPS = 3
BLOCK_SECONDS = 0.5
MEMORY_PAIRS = 400_000
# Of the seconds; what remains is for starting, and for memory.
SHARES = {"event": 0.4, "host": 0.2, "realistic": 0.25}
Work = Callable[[], None]


def make_host_bound(is_cpu: bool) -> Work:
    if is_cpu:
        from overhead_model import make_small_training

        return make_small_training()
    from workloads import make_training

    return make_training()


def make_realistic(is_cpu: bool) -> Work:
    """On the card: GPT-2 small on 16,384 tokens."""
    device = "cpu" if is_cpu else "cuda"
    torch.manual_seed(0)
    layers, width, vocabulary, shape = (
        (4, 128, 1000, (4, 65)) if is_cpu else (12, 768, 50257, (16, 1025))
    )
    model = Gpt(layers, width, vocabulary).to(device)
    optimizer = torch.optim.AdamW(model.parameters())
    ids = torch.randint(0, vocabulary, shape, device=device)

    def train_step() -> None:
        with torch.autocast(device, torch.bfloat16, enabled=not is_cpu):
            logits = model(ids[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return train_step


def compare_steps(path: Path, is_cpu: bool, seconds: float, step: Work) -> dict[str, Any]:
    wait = (lambda: None) if is_cpu else torch.cuda.synchronize

    def timed(times: int) -> Figures:
        """`wait` is part of the time, but not of what the program's threads compute: torch waits
        for a card by asking it again and again."""
        begin, (program, recorder) = time.perf_counter(), processor_seconds()
        for _ in range(times):
            step()
        program_end, recorder_end = processor_seconds()
        wait()
        wall = time.perf_counter() - begin
        spent = (wall, program_end - program, recorder_end - recorder)
        return dict(zip(("wall", "program", "recorder"), (s / times for s in spent), strict=True))

    timed(20)
    times = max(2, round(BLOCK_SECONDS / timed(5)["wall"]))
    with Recorded(path, is_cpu, None) as recorded:
        timed(20)
    rounds = Rounds(path, is_cpu)

    def block() -> Figures:
        timed(WARM_STEPS)
        return timed(times)

    rounds.run(seconds, block)
    step_s = rounds.usual("wall")
    return {
        "ms": step_s * 1e3,
        "events": recorded.events / 20,
        "chapters": rounds.chapters,
        "program_ms": rounds.usual("program") * 1e3,
        "recorder_ms": {way: rounds.usual("recorder", way) * 1e3 for way in ("file", "kept")},
        "added_share": rounds.added("wall", 1 / step_s),
        "added_share_of_alike": rounds.unlike_itself("wall", 1 / step_s),
        "added_program_share": rounds.added("program", 1 / step_s),
    }


def make_pairs(is_cpu: bool) -> list[Work]:
    """Ways to allocate and free, with as little else as Python allows; the best comes first."""
    turns, device, empty = range(BURST_PAIRS), "cpu" if is_cpu else "cuda", torch.empty

    def pairs() -> None:
        for _ in turns:
            empty(1000, device=device)

    make = getattr(torch._C, "_cuda_cudaCachingAllocator_raw_alloc", None)
    free = getattr(torch._C, "_cuda_cudaCachingAllocator_raw_delete", None)
    if is_cpu or make is None or free is None:
        return [pairs]
    pairs()  # begins to use the card
    stream = torch.cuda.current_stream().cuda_stream

    def raw_pairs() -> None:
        for _ in turns:
            free(make(4096, stream))

    return [raw_pairs, pairs]


def recorded_pairs(path: Path, is_cpu: bool) -> tuple[Work, int]:
    """The first of these ways that is recorded, and its events."""
    for pairs in make_pairs(is_cpu):
        with Recorded(path, is_cpu, None) as recorded:
            pairs()
        if recorded.events >= 2 * BURST_PAIRS:
            return pairs, recorded.events
    raise SystemExit("what is allocated in a loop is not recorded")


def reference() -> int:
    """Work that allocates nothing, of about as long."""
    total = 0
    for turn in range(REFERENCE_TURNS):
        total ^= turn & 255
    return total


def compare_event(path: Path, is_cpu: bool, seconds: float) -> dict[str, Any]:
    pairs, events = recorded_pairs(path, is_cpu)
    read = InstructionCounter(is_of_thread=True).read
    has_instructions = read() is not None
    clock = time.thread_time_ns

    def burst() -> tuple[float, float, float]:
        """Of the events, of the loop beside them; instructions of the events."""
        before = clock()
        reference()
        begin, counted = clock(), read() or 0
        pairs()
        instructions, end = (read() or 0) - counted, clock()
        reference()
        return end - begin, (clock() - end + begin - before) / 2, instructions

    core = OwnCore()

    def block() -> Figures:
        core.send_away_recorder()
        for _ in range(5):
            burst()
        found = []
        for _ in range(BURSTS):
            found.append(burst())
            time.sleep(0.002)  # the ring holds some bursts, not all
        return {
            "ratio": middle_mean([row[0] / row[1] for row in found]),
            "reference_ns": statistics.median(row[1] for row in found),
            "instructions": statistics.median(row[2] for row in found) / events,
        }

    rounds = Rounds(path, is_cpu)
    with core:
        rounds.run(seconds, block)
    ns = statistics.median(rounds.usual("reference_ns", way) for way in rounds.figures) / events
    return {
        "ns": rounds.usual("ratio") * ns,
        "added_ns": rounds.added("ratio", ns),
        "added_ns_of_alike": rounds.unlike_itself("ratio", ns),
        "added_instructions": rounds.added("instructions") if has_instructions else None,
        "chapters": rounds.chapters,
        "has_own_core": core.is_there,
    }


def share_of(event: dict[str, Any], step: dict[str, Any]) -> dict[str, float]:
    scale = step["events"] / (step["ms"] * 1e6)
    return {key: event["added_ns"][key] * scale for key in ("mean", "low", "high")}


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def measure_memory(path: Path, is_cpu: bool, keep: int | None) -> None:
    """In a process of its own: prints the mebibytes that recording takes."""
    device = "cpu" if is_cpu else "cuda"
    kept = [torch.empty(100, device=device) for _ in range(5_000)]
    before = resident_bytes()
    recording = gpumemprof.start(path, cpu=is_cpu, keep=keep)
    for pair in range(MEMORY_PAIRS):
        kept[pair % len(kept)] = torch.empty(100 + pair % 7, device=device)
    grown = resident_bytes() - before
    recording.stop()
    print(json.dumps(grown / 2**20))


def memory(folder: Path, is_cpu: bool, keep: int) -> float:
    words = [sys.executable, __file__, "--memory", str(folder / f"memory{keep}.gmp"), str(keep)]
    done = subprocess.run(
        [*words, *(["--cpu"] if is_cpu else [])], capture_output=True, text=True, check=True
    )
    return float(done.stdout)


def measure(folder: Path, is_cpu: bool, seconds: float) -> dict[str, Any]:
    path = folder / "run.gmp"
    found: dict[str, Any] = {"event": compare_event(path, is_cpu, seconds * SHARES["event"])}
    for name, make in (("host", make_host_bound), ("realistic", make_realistic)):
        step = compare_steps(path, is_cpu, seconds * SHARES[name], make(is_cpu))
        share = share_of(found["event"], step)
        found[name] = {**step, "share": share, "is_within_bar": share["high"] <= BAR}
    for keep, name in ((0, "file_mib"), (KEEP, "kept_mib")):
        found[name] = memory(folder, is_cpu, keep)
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--seconds", type=float, default=170)
    parser.add_argument("--memory", nargs=2)
    options = parser.parse_args()
    if options.memory:
        path, keep = options.memory
        measure_memory(Path(path), options.cpu, int(keep) or None)
        return
    folder = Path(tempfile.mkdtemp())
    gc.collect()
    gc.disable()  # its pauses would hit one way at random
    try:
        print(json.dumps(measure(folder, options.cpu, options.seconds)))
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
