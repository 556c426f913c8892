"""What a predicted recording says: peaks, what was assumed, and whether memory ran out."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gpumemprof.errors import Error
from gpumemprof.estimate.process.facts import (
    ASSUMPTION,
    CERTAINTY,
    COMMUNICATORS,
    ENDED,
    LIMIT_REACHED,
    OUT_OF_MEMORY,
    RESERVED_RANGE,
)
from gpumemprof.read.recording import Recording

__all__ = ["Assumption", "OutOfMemory", "Prediction"]

_STEPS_TO_THE_PEAK = 2
_LATE_SHARE = 0.95
_FEWEST_STEPS_THAT_GROW = 3
_LEAST_GROWTH = 64 << 10


@dataclass(frozen=True)
class Assumption:
    """Something the prediction took for granted, at one line of the program."""

    kind: str
    """One of the engine's kinds; ``failure``: the program would end there on a GPU."""
    text: str
    file: str
    line: int
    count: int

    @property
    def where(self) -> str:
        """``train.py:52``; empty if no line of the program is known."""
        return f"{Path(self.file).name}:{self.line}" if self.file else ""


@dataclass(frozen=True)
class OutOfMemory:
    """Where the predicted run ran out of memory."""

    where: str
    """``train.py:52``; empty if unknown."""
    wanted_bytes: int
    short_bytes: int
    """How much more the card would have needed for this request alone."""


@dataclass(frozen=True)
class Prediction:
    """One predicted run on one card."""

    allocated_bytes: int
    reserved_bytes: int
    retries: int | None
    """How often the pool had to give memory back to make room."""
    steps: int | None
    ended: str
    """Why the run ended: ``exit``, ``steps``, ``limit`` or ``out of memory``; or empty."""
    out_of_memory: OutOfMemory | None
    """The last time that memory ran out; a program may go on afterwards."""
    certainty: dict[str, int] | None
    """Bytes at the peak by the certainty of the rules that predicted them."""
    assumptions: list[Assumption] = field(default_factory=list)
    needed_bytes: int | None = None
    """The smallest pool in which the whole run succeeds; None if it failed, or if unknown."""
    lines_at_limits: dict[int, str] = field(default_factory=dict)
    """By the limits that were simulated: the line where memory runs out, if it does."""

    reserved_range: tuple[int, int] | None = None
    """Of the peak of reserved memory, over orders in which segments may lie; None if unknown."""

    grows_at_end: bool = False
    """Whether it was stopped for its time while its peak kept rising."""

    grown_bytes_per_step: int = 0
    """What the last step left behind beside all that was there before it; 0 if that is little."""

    communicators: int = 0
    """Groups of ranks that exchanged data on the card: NCCL has buffers for each."""

    @property
    def has_failed(self) -> bool:
        """Whether the program ended because memory ran out."""
        return self.out_of_memory is not None and self.ended == OUT_OF_MEMORY

    @property
    def is_cut_short(self) -> bool:
        """Whether its time was over before its second step, which usually has the peak."""
        return self.ended == LIMIT_REACHED and (self.steps or 0) < _STEPS_TO_THE_PEAK

    def failed(self) -> Prediction:
        """The same, of a program that ended because of it in its own way."""
        return replace(self, ended=OUT_OF_MEMORY, needed_bytes=None)

    @classmethod
    def read(
        cls, recording: Recording, limit_bytes: int, limits: Sequence[int] = ()
    ) -> Prediction | None:
        """From the recording of a run in which the pool could grow to `limit_bytes`.

        `limits` are simulated too. None if it used no GPU memory.
        """
        report = recording.report(top=0)
        devices = [entry for entry in report["devices"] if entry["device"].startswith("cuda")]
        if not devices:
            return None
        device = max(devices, key=lambda entry: entry["peak_reserved_bytes"] or 0)
        allocated = device["peak"]["allocated_bytes"]
        reserved = device["peak_reserved_bytes"]
        if allocated is None or reserved is None:
            return None
        if allocated == 0 and not device["oom_reports"]:
            return None
        facts = report["input"]["facts"]
        oom = _out_of_memory(device, limit_bytes)
        ended = facts.get(ENDED, "")
        simulated = _simulate(recording, device["device"], limit_bytes, limits)
        return cls(
            allocated_bytes=allocated,
            reserved_bytes=reserved,
            retries=device["counters"]["alloc_retries"],
            steps=_steps(device),
            ended=ended,
            out_of_memory=oom,
            certainty=_certainty(facts),
            assumptions=_assumptions(facts),
            needed_bytes=_needed(simulated.needed_bytes, limit_bytes, oom, ended),
            lines_at_limits=simulated.lines,
            reserved_range=_reserved_range(facts),
            grows_at_end=ended == LIMIT_REACHED and _has_late_peak(device),
            grown_bytes_per_step=_grown_bytes(device) if ended == "steps" else 0,
            communicators=int(facts.get(COMMUNICATORS, 0)),
        )


def _grown_bytes(device: Mapping[str, Any]) -> int:
    """The first step also leaves the optimizer's state and workspaces, and so is not compared."""
    floors = [step["floor_bytes"] for step in device.get("steps") or [] if step["step"] > 0]
    if len(floors) < _FEWEST_STEPS_THAT_GROW:
        return 0
    grown = int(floors[-1] - floors[-2])
    return grown if grown >= _LEAST_GROWTH else 0


def _has_late_peak(device: Mapping[str, Any]) -> bool:
    event, events = device["peak"]["event_index"], device["events"]
    return event is not None and bool(events) and event >= _LATE_SHARE * events


def _needed(
    bytes_needed: int | None, limit_bytes: int, oom: OutOfMemory | None, ended: str
) -> int | None:
    if oom is None or bytes_needed is None:
        return bytes_needed
    # A program that went on asked for more than it needs, to see how much there is.
    return None if ended == OUT_OF_MEMORY or bytes_needed > limit_bytes else bytes_needed


def _steps(device: Mapping[str, Any]) -> int | None:
    steps = device.get("steps")
    return None if steps is None else sum(1 for step in steps if step["step"] > 0)


def _out_of_memory(device: Mapping[str, Any], limit_bytes: int) -> OutOfMemory | None:
    if not device["oom_reports"]:
        return None
    oom = device["oom_reports"][-1]
    short = oom["allocated_bytes"] + oom["wanted_bytes"] - limit_bytes
    if short <= 0:  # The pool is fragmented: what is free is in pieces.
        short = oom["wanted_bytes"] - (oom["largest_free_bytes"] or 0)
    return OutOfMemory(_user_line(oom["stack"]), oom["wanted_bytes"], max(1, short))


_LIBRARIES = ("site-packages", "dist-packages", "/lib/python3", "<frozen", "<string")


def _user_line(stack: list[dict[str, Any]]) -> str:
    """The innermost line outside of installed packages."""
    for frame in stack:
        if frame["file"] and not any(part in frame["file"] for part in _LIBRARIES):
            return f"{Path(frame['file']).name}:{frame['line']}"
    return ""


@dataclass(frozen=True)
class _Simulated:
    needed_bytes: int | None = None
    lines: dict[int, str] = field(default_factory=dict)


def _simulate(
    recording: Recording, device: str, limit_bytes: int, limits: Sequence[int]
) -> _Simulated:
    try:
        replayed = recording.replay(
            memory_limit=list(limits), recorded_limit=limit_bytes, device=device
        )
    except Error:  # A limit may be too small for the first segment.
        return _Simulated() if not limits else _simulate(recording, device, limit_bytes, ())
    runs = replayed["devices"][0]["runs"]
    lines = {
        limit: _event_line(recording, device, run["first_oom_event"])
        for run in runs
        if (limit := run["memory_limit_bytes"]) is not None
        and run["first_oom_event"] is not None
        and not run["is_recorded"]
    }
    return _Simulated(runs[0]["min_memory_bytes"], lines)


def _event_line(recording: Recording, device: str, event: int) -> str:
    handle = recording._with_events()
    stack = handle.event_stack(handle.device_names.index(device), event)
    frames = [] if stack is None else handle.stack(stack)
    return _user_line([{"file": file, "line": line} for _, file, line in frames])


def _certainty(facts: dict[str, str]) -> dict[str, int] | None:
    try:
        found = json.loads(facts[CERTAINTY])
        return {str(name): int(count) for name, count in found.items()}
    except (KeyError, ValueError, AttributeError, TypeError):
        return None


def _reserved_range(facts: dict[str, str]) -> tuple[int, int] | None:
    try:
        low, high = json.loads(facts[RESERVED_RANGE])
        return int(low), int(high)
    except (KeyError, ValueError, TypeError):
        return None


def _assumptions(facts: dict[str, str]) -> list[Assumption]:
    found = []
    for name, value in facts.items():
        if name.startswith(ASSUMPTION):
            try:
                found.append(Assumption(**json.loads(value)))
            except (TypeError, ValueError):
                continue
    return _with_lines(found)


def _with_lines(found: list[Assumption]) -> list[Assumption]:
    """Without those that are listed with their lines too."""
    with_lines = {(entry.kind, entry.text) for entry in found if entry.file}
    return [entry for entry in found if entry.file or (entry.kind, entry.text) not in with_lines]
