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
import io
import pickle
import sys
from pathlib import Path
from typing import Any, BinaryIO

DEFAULT = Path(__file__).parents[1] / "tests/data/snapshots/gpt2_b4_fp32_adamw.pickle.gz"

LARGE = 12_000_000  # from this size on, the file is written without building all objects

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


class Streamer:
    """Writes a pickle event by event: the objects of 30 million events fit in no machine's memory.

    Lists of frames are written once and referenced, so an event takes fewer bytes than in a file
    that PyTorch dumps.
    """

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.numbers: dict[int, int] = {}

    def plain(self, value: Any) -> bytes:
        buffer = io.BytesIO()
        pickler = pickle.Pickler(buffer, protocol=2)
        pickler.fast = True  # no memo references, so that pieces can be concatenated
        pickler.dump(value)
        return buffer.getvalue()[2:-1]

    def key(self, name: str) -> None:
        self.file.write(self.plain(name))

    def remember(self, frames: list[Any]) -> bytes:
        number = self.numbers.setdefault(id(frames), len(self.numbers))
        return b"j" + number.to_bytes(4, "little")

    def write_shared(self, events: list[Event]) -> None:
        self.key("shared_frames")
        self.file.write(b"](")
        for event in events:
            if id(event["frames"]) not in self.numbers:
                number = self.remember(event["frames"])[1:]
                self.file.write(self.plain(event["frames"]) + b"r" + number)
        self.file.write(b"e")

    def template(self, event: Event) -> tuple[bytes, int]:
        """An event up to its time, which comes last, and the time itself."""
        fields = {key: value for key, value in event.items() if key not in ("frames", "time_us")}
        body = self.plain(fields)
        if body[-1:] != b"u":
            raise SystemExit("an event of one field cannot be written")
        frames = self.plain("frames") + self.remember(event["frames"])
        return body[:-1] + frames + self.plain("time_us") + b"\x8a\x08", event["time_us"]

    def write_events(self, events: list[Event], shift: int = 0) -> None:
        templates = [self.template(event) for event in events]
        self.write_turn(templates, shift)

    def write_turn(self, templates: list[tuple[bytes, int]], shift: int) -> None:
        pieces = [head + (time + shift).to_bytes(8, "little") + b"u" for head, time in templates]
        self.file.write(b"(" + b"".join(pieces) + b"e")


def make_large(events: int, out: Path, source: Path = DEFAULT) -> int:
    with gzip.open(source) as file:
        snapshot = pickle.load(file)
    before, step = split_last_step(snapshot)
    turns = max(1, (events - len(before)) // len(step))
    length = step[-1]["time_us"] - step[0]["time_us"] + 100
    with out.open("wb") as file:
        streamer = Streamer(file)
        file.write(b"\x80\x02}(")
        for name in ("segments", "allocator_settings", "external_annotations"):
            streamer.key(name)
            file.write(streamer.plain(snapshot[name]))
        streamer.write_shared(before + step)
        streamer.key("device_traces")
        file.write(b"](]")
        streamer.write_events(before)
        templates = [streamer.template(event) for event in step]
        for turn in range(turns):
            streamer.write_turn(templates, turn * length)
        file.write(b"eu.")
    return len(before) + turns * len(step)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    source = Path(sys.argv[3]) if len(sys.argv) > 3 else DEFAULT
    wanted = int(sys.argv[1])
    count = (make_large if wanted > LARGE else make)(wanted, Path(sys.argv[2]), source)
    print(f"{count:,} events in {sys.argv[2]}")
