"""The keys and types of the JSON report, as ``gpumemprof report --json`` prints it.

``None`` stands for what the recording does not contain. Moments are numbers of events, times are in
microseconds since 1970 (``time_us``) or since the first event (``since_start_us``).
"""

from __future__ import annotations

from typing import TypedDict

from gpumemprof.read.completeness import Completeness
from gpumemprof.read.json_leaks import LeakSiteJson

__all__ = [
    "DeviceJson",
    "FrameJson",
    "GrowthJson",
    "LiveGroupJson",
    "ModuleJson",
    "ReportJson",
    "SharesJson",
    "StepJson",
]


class FrameJson(TypedDict):
    """One frame of a call stack."""

    name: str
    file: str
    line: int


class CutJson(TypedDict):
    """Where a truncated file ends."""

    byte_offset: int
    reason: str


class InputJson(TypedDict):
    """The recording."""

    kind: str
    path: str
    events: int
    allocations: int | None
    frees: int | None
    exact_from_event: int | None
    cut: CutJson | None
    allocator_settings: dict[str, str]
    facts: dict[str, str]


class WhenJson(TypedDict):
    """A moment of the run."""

    event_index: int | None
    time_us: int | None
    since_start_us: int | None
    step: int | None
    phase: str | None
    annotation: str | None


class PeakJson(WhenJson):
    """The moment with the most allocated bytes."""

    allocated_bytes: int | None
    reserved_bytes: int | None
    requested_bytes: int | None


class EndJson(TypedDict):
    """The state at the end of the recording."""

    allocated_bytes: int
    active_bytes: int
    reserved_bytes: int | None
    requested_bytes: int
    inactive_split_bytes: int
    segments: int
    expandable_runs: int


class CountersJson(TypedDict):
    """How often each kind of event happened."""

    allocations: int | None
    frees: int | None
    segment_allocs: int | None
    segment_frees: int | None
    segment_maps: int | None
    segment_unmaps: int | None
    alloc_retries: int | None
    ooms: int | None


class FigureProvenanceJson(TypedDict):
    """Where figures come from: ``measured``, ``inferred`` or ``simulated``."""

    peak: str
    end: str
    alloc_retries: str


class SourceJson(TypedDict):
    """What one source of memory holds."""

    bytes_at_peak: int
    bytes_max: int
    provenance: str
    max_provenance: str


class LiveGroupJson(TypedDict):
    """Live blocks that were allocated by the same stack."""

    stack: list[FrameJson]
    is_backward: bool
    bytes: int
    blocks: int
    tags: list[str]


class TagJson(TypedDict):
    """Memory that was allocated under a tag."""

    tag: str
    bytes: int
    blocks: int
    bytes_max: int
    allocations: int


class NamedTensorJson(TypedDict):
    """A tensor whose name was recorded."""

    name: str
    source: str
    bytes: int
    provenance: str


class NamedJson(TypedDict):
    """The named tensors that are live."""

    bytes: int
    blocks: int
    largest: list[NamedTensorJson]


class StreamJson(TypedDict):
    """A stream's share of the pool."""

    stream: int
    reserved_bytes: int
    free_bytes: int
    largest_free_bytes: int


class FreeJson(TypedDict):
    """Reserved memory that is not allocated."""

    free_bytes: int
    waiting_bytes: int
    hole_bytes: int
    holes: int
    largest_hole_bytes: int
    whole_segment_bytes: int
    whole_segments: int
    largest_free_bytes: int
    small_pool_bytes: int
    private_pool_bytes: int
    rounding_bytes: int
    streams: list[StreamJson]


class SharesJson(TypedDict):
    """Why free memory is reserved."""

    free_bytes: int
    other_stream_bytes: int
    pinned_bytes: int
    surplus_bytes: int


class PinningLineJson(TypedDict):
    """A line whose blocks keep segments from being returned to the driver."""

    segments: int
    free_bytes: int
    pin_bytes: int
    frame: FrameJson | None


class PinnedSegmentJson(TypedDict):
    """A segment that is kept by a small part of it."""

    address: int
    size_bytes: int
    free_bytes: int
    blocks: int
    pin_bytes: int
    pin_event: int | None
    pin_stack: list[FrameJson]


class PinsJson(TypedDict):
    """What keeps segments from being returned to the driver."""

    shares: SharesJson
    lines: list[PinningLineJson]
    segments: list[PinnedSegmentJson]


class _OnlyAwayFromPeakJson(TypedDict, total=False):
    live: list[LiveGroupJson]


class AtJson(WhenJson, _OnlyAwayFromPeakJson):
    """The moment that was asked for; ``live`` only if it is not the peak."""

    moment: str | int
    allocated_bytes: int
    reserved_bytes: int | None
    requested_bytes: int
    active_bytes: int
    sources: dict[str, int]
    tags: list[TagJson]
    named: NamedJson
    free: FreeJson
    pins: PinsJson


class GrowingLineJson(TypedDict):
    """A line whose memory grows from step to step."""

    frame: FrameJson | None
    is_backward: bool
    since_step: int
    bytes_per_step: int
    grown_bytes: int


class GrowthJson(TypedDict):
    """Whether memory grows from step to step."""

    is_growing: bool
    steps: int
    since_step: int | None
    last_step: int
    bytes_per_step: int
    grown_bytes: int
    frame: FrameJson | None
    lines: list[GrowingLineJson]


class ByteRangeJson(TypedDict):
    """Bounds of a number of bytes that is not known exactly."""

    low: int
    high: int


class OomJson(WhenJson):
    """One out-of-memory error."""

    wanted_bytes: int
    device_free_bytes: int | None
    allocated_bytes: int
    reserved_bytes: int
    free_in_pool_bytes: int
    largest_free_bytes: int
    cause: str
    is_proven: bool
    doubts: list[str]
    contributing: list[str]
    short_bytes: ByteRangeJson | None
    limit_bytes: ByteRangeJson | None
    is_limit_stated: bool | None
    card_bytes: int | None
    other_processes_bytes: int | None
    outside_pool_bytes: int | None
    surviving_settings: list[str]
    remedy_doubts: list[str]
    stack: list[FrameJson]


class CardJson(TypedDict):
    """The whole card, as the driver reports it."""

    total_bytes: int | None
    firmware_bytes: int | None
    used_bytes: int | None
    process_bytes: int | None
    other_processes_bytes: int | None
    driver_bytes: int | None
    free_bytes: int | None
    provenance: str


class PoolJson(TypedDict):
    """torch's pool."""

    reserved_bytes: int
    allocated_bytes: int
    requested_bytes: int
    waiting_bytes: int
    cached_bytes: int
    split_bytes: int
    provenance: str


class OutsideKindJson(TypedDict):
    """One kind of memory outside the pool."""

    bytes: int
    provenance: str


class OutsideGrowthJson(TypedDict):
    """A moment when memory outside the pool grew."""

    before_event: int
    bytes: int
    kind: str
    place: str | None


class OutsideJson(TypedDict):
    """This process's memory outside the pool."""

    bytes: int
    provenance: str
    by_kind: dict[str, OutsideKindJson]
    growth: list[OutsideGrowthJson]


class LeaksSummaryJson(TypedDict):
    """The verdict of ``gpumemprof leaks``."""

    verdict: str
    steps: int
    growth_bytes_per_step: int | None
    frame: FrameJson | None
    lines: int
    sites: list[LeakSiteJson]


class CardUsageJson(TypedDict):
    """Who holds the memory of the whole card, at the last sample."""

    before_event: int
    time_us: int | None
    is_consistent: bool
    card: CardJson
    pool: PoolJson
    outside: OutsideJson | None


class PhaseJson(TypedDict):
    """One phase of one training step."""

    phase: str
    first_event: int
    last_event: int
    peak_bytes: int
    peak_event: int | None
    live_bytes: int
    saved_for_backward_bytes: int | None
    sources_at_peak: dict[str, int]


class StepJson(TypedDict):
    """One training step."""

    step: int
    first_event: int
    last_event: int
    peak_bytes: int
    peak_event: int | None
    floor_bytes: int
    live_bytes: int
    saved_for_backward_bytes: int
    sources_at_peak: dict[str, int]
    phases: list[PhaseJson]


class ModuleJson(TypedDict):
    """One module, with everything inside it."""

    parent: int | None
    name: str | None
    frame: FrameJson | None
    bytes: int
    self_bytes: int
    blocks: int
    sources: dict[str, int]


class DeviceJson(TypedDict):
    """One device; ``gap`` is the use of the whole card."""

    device: str
    events: int
    exact_from_event: int | None
    peak: PeakJson
    peak_reserved_bytes: int | None
    peak_active_bytes: int | None
    peak_requested_bytes: int | None
    end: EndJson
    counters: CountersJson
    provenance: FigureProvenanceJson
    run_kind: str
    sources: dict[str, SourceJson]
    rounding: SourceJson
    buffer_bytes_at_peak: int | None
    live_at_peak: list[LiveGroupJson] | None
    at: AtJson
    growth: GrowthJson | None
    leaks: LeaksSummaryJson
    oom_reports: list[OomJson]
    gap: CardUsageJson | None
    source_series: dict[str, list[int]]
    steps: list[StepJson]
    modules_by: str
    modules: list[ModuleJson]


class ReportJson(TypedDict):
    """The whole report."""

    schema_version: int
    input: InputJson
    completeness: Completeness
    devices: list[DeviceJson]
