"""A small caching allocator in plain Python that writes snapshots: an independent check for replay.

It follows PyTorch's rules for one stream and plain segments, and counts totals after each event.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

KIB, MIB = 1 << 10, 1 << 20
SMALL_MAX = MIB
FIRST_ADDRESS = 0x7F0000000000


def round_up(size: int, unit: int) -> int:
    return -(-size // unit) * unit


@dataclass
class Block:
    address: int
    size: int
    requested: int = 0
    state: str = "inactive"
    frames: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class Segment:
    address: int
    size: int
    is_small: bool
    blocks: list[Block]


@dataclass(frozen=True)
class Totals:
    allocated: int
    active: int
    reserved: int
    requested: int


class MadeUpDevice:
    """One device; `trace` and `segments` are its part of a snapshot."""

    def __init__(self, device: int, has_times: bool = True) -> None:
        self.device = device
        self.has_times = has_times
        self.segments: list[Segment] = []
        self.trace: list[dict[str, Any]] = []
        self.totals: list[Totals] = []  # after each event
        self._next_address = FIRST_ADDRESS

    def allocate(self, size: int, frames: list[dict[str, Any]]) -> Block:
        rounded = max(512, round_up(size, 512))
        is_small = rounded <= SMALL_MAX
        segment, block = self._best_fit(rounded, is_small) or self._new_segment(rounded, is_small)
        rest = block.size - rounded
        if rest >= 512 if is_small else rest > MIB:
            block.size = rounded
            remainder = Block(block.address + rounded, rest)
            segment.blocks.insert(segment.blocks.index(block) + 1, remainder)
        block.requested, block.state, block.frames = size, "active_allocated", frames
        self._record("alloc", block.address, size, frames)
        return block

    def let_go(self, block: Block) -> None:
        block.state = "active_pending_free"
        self._record("free_requested", block.address, block.requested, block.frames)

    def complete(self, block: Block) -> None:
        block.state = "inactive"
        self._record("free_completed", block.address, block.requested, block.frames)
        block.frames = []
        self._merge(next(s for s in self.segments if block in s.blocks))

    def empty_cache(self) -> None:
        for segment in list(self.segments):
            if [block.state for block in segment.blocks] == ["inactive"]:
                self.segments.remove(segment)
                self._record("segment_free", segment.address, segment.size, [])

    def listed_segments(self) -> list[dict[str, Any]]:
        return [self._listed(segment) for segment in self.segments]

    def _best_fit(self, size: int, is_small: bool) -> tuple[Segment, Block] | None:
        fits = [
            (block.size, block.address, segment, block)
            for segment in self.segments
            for block in segment.blocks
            if segment.is_small == is_small and block.state == "inactive" and block.size >= size
        ]
        return min(fits, key=lambda fit: fit[:2])[2:] if fits else None

    def _new_segment(self, size: int, is_small: bool) -> tuple[Segment, Block]:
        large = 20 * MIB if size < 10 * MIB else round_up(size, 2 * MIB)
        taken = 2 * MIB if is_small else large
        block = Block(self._next_address, taken)
        segment = Segment(block.address, taken, is_small, [block])
        self._next_address += taken + 2 * MIB
        self.segments.append(segment)
        self._record("segment_alloc", segment.address, taken, [])
        return segment, block

    @staticmethod
    def _merge(segment: Segment) -> None:
        merged: list[Block] = []
        for block in segment.blocks:
            if merged and merged[-1].state == block.state == "inactive":
                merged[-1].size += block.size
            else:
                merged.append(block)
        segment.blocks = merged

    def _record(self, action: str, address: int, size: int, frames: list[dict[str, Any]]) -> None:
        event: dict[str, Any] = {"action": action, "addr": address, "size": size, "stream": 0}
        if self.has_times:
            event["time_us"] = 1_700_000_000_000_000 + 10 * len(self.trace)
        if frames:
            event["frames"] = frames
        self.trace.append(event)
        blocks = [block for segment in self.segments for block in segment.blocks]
        active = [block for block in blocks if block.state != "inactive"]
        self.totals.append(
            Totals(
                sum(block.size for block in active if block.state == "active_allocated"),
                sum(block.size for block in active),
                sum(segment.size for segment in self.segments),
                sum(block.requested for block in active),
            )
        )

    def _listed(self, segment: Segment) -> dict[str, Any]:
        blocks = [
            {
                "address": block.address,
                "size": block.size,
                "requested_size": block.requested,
                "state": block.state,
                "frames": block.frames,
            }
            for block in segment.blocks
        ]
        active = [block for block in segment.blocks if block.state != "inactive"]
        return {
            "device": self.device,
            "address": segment.address,
            "total_size": segment.size,
            "allocated_size": sum(b.size for b in active if b.state == "active_allocated"),
            "active_size": sum(b.size for b in active),
            "requested_size": sum(b.requested for b in active),
            "stream": 0,
            "segment_type": "small" if segment.is_small else "large",
            "segment_pool_id": (0, 0),
            "is_expandable": False,
            "frames": [],
            "blocks": blocks,
        }


def snapshot_of(devices: list[MadeUpDevice], lost_events: int = 0) -> dict[str, Any]:
    """What `_snapshot()` would return, after a ring lost the first events of each device."""
    return {
        "segments": [segment for device in devices for segment in device.listed_segments()],
        "device_traces": [device.trace[lost_events:] for device in devices],
        "allocator_settings": {"expandable_segments": False, "max_split_size": -1},
    }
