"""The report of a recording as typed objects; names match those of the JSON report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from gpumemprof.printable import printable
from gpumemprof.read.json_report import DeviceJson, LiveGroupJson, ModuleJson, StepJson

__all__ = [
    "Counters",
    "DeviceReport",
    "DeviceSources",
    "End",
    "Frame",
    "LiveGroup",
    "Module",
    "Peak",
    "Phase",
    "SourceFigure",
    "Step",
]


@dataclass(frozen=True)
class Frame:
    """One frame of a call stack.

    >>> print(Frame("forward", "model.py", 12))
    model.py:12 forward
    """

    name: str
    file: str
    line: int

    def __str__(self) -> str:
        """``file:line name``."""
        return printable(f"{self.file}:{self.line} {self.name}")


@dataclass(frozen=True)
class LiveGroup:
    """Blocks that were live at the same moment and allocated by the same stack.

    >>> LiveGroup([Frame("forward", "model.py", 12)], bytes=1024, blocks=2).blocks
    2
    """

    stack: list[Frame]
    """Innermost first; empty where no stack was recorded."""
    bytes: int
    blocks: int
    is_backward: bool = False
    """Allocated in backward: the stack is that of the forward op whose gradient was computed."""


@dataclass(frozen=True)
class Peak:
    """The moment with the most allocated bytes; ``None`` for what the recording does not contain.

    >>> import gpumemprof
    >>> peak = gpumemprof.load(gpumemprof.demo_path()).devices[0].peak
    >>> peak.allocated_bytes <= peak.reserved_bytes
    True
    """

    allocated_bytes: int | None
    reserved_bytes: int | None
    requested_bytes: int | None
    event_index: int | None
    """``None``: it was already so when the history began."""
    time_us: int | None
    step: int | None
    """As in the table of steps; 0: before the first."""


@dataclass(frozen=True)
class End:
    """The state at the end of the recording, according to PyTorch's own counters.

    >>> import gpumemprof
    >>> end = gpumemprof.load(gpumemprof.demo_path()).devices[0].end
    >>> end.allocated_bytes <= end.active_bytes <= end.reserved_bytes
    True
    """

    allocated_bytes: int
    active_bytes: int
    reserved_bytes: int | None
    """``None`` for CPU tensors, which no pool holds."""
    requested_bytes: int
    inactive_split_bytes: int
    segments: int


@dataclass(frozen=True)
class Counters:
    """How often each kind of event happened; ``None`` if no history was recorded.

    >>> import gpumemprof
    >>> gpumemprof.load(gpumemprof.demo_path()).devices[0].counters.ooms
    1
    """

    allocations: int | None
    frees: int | None
    segment_allocs: int | None
    segment_frees: int | None
    alloc_retries: int | None
    ooms: int | None


@dataclass(frozen=True)
class SourceFigure:
    """What one source of memory holds, in requested bytes: the size of its tensors' storages.

    >>> SourceFigure(bytes_at_peak=10, bytes_max=20, provenance="inferred").bytes_max
    20
    """

    bytes_at_peak: int
    """At the moment of most allocated bytes."""
    bytes_max: int
    """The most it ever was, in general at another moment."""
    provenance: str
    """Of ``bytes_at_peak``: ``measured`` where the recording names every one of its storages, else
    ``inferred``."""
    max_provenance: str = "inferred"
    """The same for ``bytes_max``."""


@dataclass(frozen=True)
class Phase:
    """One phase of one training step.

    >>> Phase("forward", 0, 9, 300, 200, 150, {"activations": 150}).saved_for_backward_bytes
    150
    """

    phase: str
    """``forward``, ``backward``, ``optimizer_step`` or ``other``."""
    first_event: int
    last_event: int
    peak_bytes: int
    """The most that was allocated in it."""
    live_bytes: int
    """What was allocated after its last event."""
    saved_for_backward_bytes: int | None
    """Activations at the end of a forward; ``None`` for other phases."""
    sources_at_peak: dict[str, int]


@dataclass(frozen=True)
class Step:
    """One training step; step 0 is everything before the first.

    >>> Step(1, 0, 9, 300, 200, 150, {"activations": 150}, []).peak_bytes
    300
    """

    step: int
    first_event: int
    last_event: int
    peak_bytes: int
    live_bytes: int
    saved_for_backward_bytes: int
    sources_at_peak: dict[str, int]
    phases: list[Phase]
    floor_bytes: int | None = None
    """The least that was allocated in it."""


@dataclass(frozen=True)
class Module:
    """What one module, with everything inside it, accounted for at the peak.

    >>> Module("h.3.mlp", None, None, 4096, 2, {"parameters": 4096}).name
    'h.3.mlp'
    """

    name: str | None
    """The module's path where it was recorded, such as ``h.3.mlp``."""
    frame: Frame | None
    """The line that calls it: all that a snapshot says about a module."""
    parent: int | None
    """Index of the module around it; ``None`` at the top."""
    bytes: int
    blocks: int
    sources: dict[str, int]


@dataclass(frozen=True)
class DeviceSources:
    """What a device's memory was for; made by `gpumemprof.Recording.sources`.

    >>> import gpumemprof
    >>> gpumemprof.load(gpumemprof.demo_path()).sources()[0].device
    'cuda:0'
    """

    device: str
    run_kind: str
    """``training``, ``inference``, or ``unknown`` where the run may have ended before its first
    backward."""
    peak_phase: str | None
    sources: dict[str, SourceFigure]
    """By name: ``parameters``, ``gradients``, ``optimizer_state``, ``activations``, ``inputs``,
    ``workspace``, ``temporaries``, ``kv_cache`` and ``unknown``; ``communication`` if
    torch.distributed allocated any."""
    rounding: SourceFigure
    """By how much blocks are larger than requested; with the sources this adds up to what is
    allocated."""
    series: dict[str, list[int]]
    """Bytes over time by source, and ``event_index``: in each stretch of the history the moment of
    most allocated bytes."""
    steps: list[Step]
    modules: list[Module]
    """A tree: parents before their children, the largest child first."""

    @classmethod
    def from_json(cls, device: DeviceJson) -> DeviceSources:
        """Build from an entry of ``devices`` in the JSON report."""
        return cls(
            device=device["device"],
            run_kind=device["run_kind"],
            peak_phase=device["peak"]["phase"],
            sources={name: SourceFigure(**figure) for name, figure in device["sources"].items()},
            rounding=SourceFigure(**device["rounding"]),
            series=device["source_series"],
            steps=[_step(step) for step in device["steps"]],
            modules=[_module(module) for module in device["modules"]],
        )


@dataclass(frozen=True)
class DeviceReport:
    """What happened on one device.

    >>> import gpumemprof
    >>> device = gpumemprof.load(gpumemprof.demo_path()).devices[0]
    >>> device.device, device.exact_from_event
    ('cuda:0', 0)
    """

    device: str
    """For example ``cuda:0``; ``host`` for pinned host memory."""
    peak: Peak
    peak_reserved_bytes: int | None
    peak_active_bytes: int | None
    peak_requested_bytes: int | None
    """These three each at their own moment, as PyTorch counts them."""
    end: End
    counters: Counters
    live_at_peak: list[LiveGroup]
    """Most bytes first; they sum to ``peak.allocated_bytes``. Empty without a history."""
    exact_from_event: int | None
    """From this event on every figure is exact; ``None``: from no event on."""

    @classmethod
    def from_json(cls, device: DeviceJson) -> DeviceReport:
        """Build from an entry of ``devices`` in the JSON report."""
        return cls(
            device=device["device"],
            peak=Peak(**_only(device["peak"], Peak)),
            peak_reserved_bytes=device["peak_reserved_bytes"],
            peak_active_bytes=device["peak_active_bytes"],
            peak_requested_bytes=device["peak_requested_bytes"],
            end=End(**_only(device["end"], End)),
            counters=Counters(**_only(device["counters"], Counters)),
            live_at_peak=[_live_group(group) for group in device["live_at_peak"] or []],
            exact_from_event=device["exact_from_event"],
        )


def _only(values: Mapping[str, Any], kind: Any) -> dict[str, Any]:
    # The JSON report may have more fields than the class.
    return {field.name: values[field.name] for field in fields(kind)}


def _step(step: StepJson) -> Step:
    phases = [Phase(**_only(phase, Phase)) for phase in step["phases"]]
    return Step(**{**_only(step, Step), "phases": phases})


def _module(module: ModuleJson) -> Module:
    frame = None if module["frame"] is None else Frame(**module["frame"])
    return Module(**{**_only(module, Module), "frame": frame})


def _live_group(group: LiveGroupJson) -> LiveGroup:
    stack = [Frame(**frame) for frame in group["stack"]]
    return LiveGroup(stack, group["bytes"], group["blocks"], group["is_backward"])
