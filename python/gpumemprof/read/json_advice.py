"""The keys and types of advice, as ``gpumemprof advise --json`` prints it."""

from __future__ import annotations

from typing import TypedDict

from gpumemprof.read.completeness import Completeness
from gpumemprof.read.json_report import GrowthJson

__all__ = ["AdviceJson", "BandJson", "RemedyJson"]


class AdvisedInputJson(TypedDict):
    """The recording, and the device that was analyzed."""

    path: str
    device: str


class BaselineJson(TypedDict):
    """The recorded run."""

    peak_allocated_bytes: int
    peak_reserved_bytes: int | None
    peak_phase: str
    at_peak: dict[str, int]


class CompletedJson(TypedDict):
    """What a step that ran out of memory would have needed as a whole."""

    peak_allocated_bytes: int
    peak_reserved_bytes: int | None
    how: str


class BandJson(TypedDict):
    """The bounds of a prediction."""

    low_bytes: int
    high_bytes: int


class RemedyJson(TypedDict):
    """What one remedy, or several together, would change."""

    name: str
    title: str
    cost: str
    predicted_peak_allocated_bytes: int | None
    predicted_peak_allocated_band: BandJson | None
    predicted_peak_reserved_bytes: int | None
    predicted_peak_reserved_band: BandJson | None
    at_least_peak_allocated_bytes: int | None
    saving_bytes: int | None
    saving_pct: float | None
    slowdown_pct: float | None
    slowdown_provenance: str | None
    provenance: str
    peak_phase: str | None
    why: str
    how: str
    how_trainer: str | None


class CodeJson(TypedDict):
    """How to apply a remedy."""

    name: str
    how: str
    how_trainer: str | None


class CheckpointedJson(TypedDict):
    """Which blocks are checkpointed."""

    blocks: int
    of: int
    which: list[int]
    modules: list[str] | None
    how: str


class RemedySetJson(TypedDict):
    """Remedies that fit together; all ``None`` where no set fits."""

    remedies: list[str] | None
    predicted_peak_allocated_bytes: int | None
    predicted_peak_allocated_band: BandJson | None
    predicted_peak_reserved_bytes: int | None
    predicted_peak_reserved_band: BandJson | None
    slowdown_pct: float | None
    slowdown_provenance: str | None
    code: list[CodeJson] | None
    checkpointing: CheckpointedJson | None


class LeastJson(RemedySetJson):
    """The lowest limit that remedies can reach."""

    limit_bytes: int


class FitJson(RemedySetJson):
    """The cheapest remedies that keep the run below a limit."""

    limit_bytes: int
    is_found: bool
    refusal: str | None
    largest_batch_factor: float | None
    largest_batch: int | None
    largest_sequence_factor: float | None
    largest_sequence: int | None
    alternatives: list[RemedySetJson]
    least: LeastJson | None


class AdviceJson(TypedDict):
    """All advice for one device; ``None`` for what is not known or was not asked for."""

    schema_version: int
    input: AdvisedInputJson
    completeness: Completeness
    baseline: BaselineJson
    completed: CompletedJson | None
    partial: str | None
    growth: GrowthJson | None
    remedies: list[RemedyJson]
    fit: FitJson | None
    missing: list[str]
