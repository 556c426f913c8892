"""Make a large PyTorch memory snapshot by repeating one step of a real training run.

usage: make_snapshot.py EVENTS OUT.pickle [SNAPSHOT.pickle.gz]

The step is cut out between the ends of two optimizer.zero_grad annotations; what is live before it
and after it is the same, so that it can follow itself any number of times. Every repeated event is
an object of its own, as it is in a snapshot that PyTorch dumps, so the bytes an event takes are
those of the real file.
"""

from __future__ import annotations

import bisect
import gzip
import pickle
import sys
from pathlib import Path
from typing import Any

DEFAULT = Path(__file__).parents[1] / "tests/data/snapshots/gpt2_b4_fp32_adamw.pickle.gz"

Event = dict[str, Any]


def play(events: list[Event], live: dict[int, int]) -> None:
    for event in events:
        if event["action"] == "alloc":
            live[event["addr"]] = event["size"]
        elif event["action"] == "free_completed":
            live.pop(event["addr"], None)


def split_last_step(snapshot: dict[str, Any]) -> tuple[list[Event], list[Event]]:
    """The events before the last step, and those of the last step."""
    events = snapshot["device_traces"][0]
    times = [event["time_us"] for event in events]
    ends = [
        bisect.bisect(times, mark["time_us"])
        for mark in snapshot["external_annotations"]
        if mark["stage"] == "END" and "zero_grad" in mark["name"]
    ]
    before, step = events[: ends[-2]], events[ends[-2] : ends[-1]]
    live: dict[int, int] = {}
    play(before, live)
    at_start = dict(live)
    play(step, live)
    if live != at_start:
        raise SystemExit("the last step does not end with what it started with: take another run")
    return before, step


def repeated(step: list[Event], times: int) -> list[Event]:
    length = step[-1]["time_us"] - step[0]["time_us"] + 100
    out: list[Event] = []
    for turn in range(times):
        for event in step:
            copy = dict(
                event, time_us=event["time_us"] + turn * length, frames=list(event["frames"])
            )
            # PyTorch makes a new string for each event; a shared one would make the file too small.
            copy["compile_context"] = "".join(["N/", "A"])
            out.append(copy)
    return out


def make(events: int, out: Path, source: Path = DEFAULT) -> int:
    with gzip.open(source) as file:
        snapshot = pickle.load(file)
    before, step = split_last_step(snapshot)
    turns = max(1, (events - len(before)) // len(step))
    snapshot["device_traces"][0] = before + repeated(step, turns)
    with out.open("wb") as file:
        pickle.dump(snapshot, file, protocol=4)
    return len(snapshot["device_traces"][0])


if __name__ == "__main__":
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    source = Path(sys.argv[3]) if len(sys.argv) > 3 else DEFAULT
    count = make(int(sys.argv[1]), Path(sys.argv[2]), source)
    print(f"{count:,} events in {sys.argv[2]}")
