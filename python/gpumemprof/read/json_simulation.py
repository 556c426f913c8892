"""The keys and types of a simulation's result, as ``gpumemprof simulate --json`` prints it."""

from __future__ import annotations

from typing import TypedDict

from gpumemprof.read.completeness import Completeness
from gpumemprof.read.json_report import SharesJson

__all__ = ["SimulationJson"]


class SimulatedInputJson(TypedDict):
    """The recording."""

    path: str


class VerifiedJson(TypedDict):
    """How much of the recording the simulation reproduces."""

    allocations: int
    address_mismatches: int
    segment_calls: int
    segment_mismatches: int
    counters: int
    counter_mismatches: int
    first_mismatch_event: int | None
    first_event: int
    empty_caches: int
    num_alloc_retries: int
    memory_limit_bytes: int | None
    is_limit_inferred: bool
    torch_version: str
    is_version_inferred: bool


class SimulatedRunJson(TypedDict):
    """The run under one set of settings and one limit."""

    alloc_conf: str
    memory_limit_bytes: int | None
    is_recorded: bool
    provenance: str
    peak_allocated_bytes: int
    peak_reserved_bytes: int
    fragmentation: float
    num_alloc_retries: int
    num_ooms: int
    first_oom_event: int | None
    num_device_alloc: int
    num_device_free: int
    min_memory_bytes: int | None


class SimulatedDeviceJson(TypedDict):
    """One device; the first of its runs is the recorded one."""

    device: str
    recorded_alloc_conf: str
    verified: VerifiedJson
    fragmentation_at_peak_reserved: SharesJson
    runs: list[SimulatedRunJson]


class SimulationJson(TypedDict):
    """The whole result; ``None`` for what is not known."""

    schema_version: int
    input: SimulatedInputJson
    completeness: Completeness
    devices: list[SimulatedDeviceJson]
