"""Where every byte of GPU memory goes in a PyTorch run, why it ran out, and what to change.

Dump a snapshot during the run, then analyze it later on any machine::

    torch.cuda.memory._record_memory_history()
    ...
    torch.cuda.memory._dump_snapshot("run.pickle")

    >>> import gpumemprof
    >>> recording = gpumemprof.load(gpumemprof.demo_path())
    >>> device = recording.devices[0]
    >>> device.device, device.peak.allocated_bytes > 0
    ('cuda:0', True)
    >>> sum(group.bytes for group in device.live_at_peak) == device.peak.allocated_bytes
    True

``print(recording)`` prints what ``gpumemprof report`` prints. PyArrow, Polars, DuckDB and pandas
read the tables (``recording.events``, ``allocations``, ``segments``, ``stacks``, ``frames``) in
place.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from gpumemprof._core import Table, __version__
from gpumemprof._data import demo_path
from gpumemprof.errors import (
    CutFileWarning,
    EnvironmentProblem,
    Error,
    InputError,
    InternalError,
    MissingFileError,
    NoCudaError,
    RecordingWarning,
    UsageError,
)
from gpumemprof.labels import Label
from gpumemprof.marks import step, tag
from gpumemprof.recorder import ActiveRecording, record, start, stop
from gpumemprof.recording import Recording, load
from gpumemprof.report import (
    Counters,
    DeviceReport,
    DeviceSources,
    End,
    Frame,
    LiveGroup,
    Module,
    Peak,
    Phase,
    SourceFigure,
    Step,
)

if TYPE_CHECKING:
    from gpumemprof.profile_result import OwnAllocations, ProfileResult
    from gpumemprof.profile_stacks import Allocation
    from gpumemprof.profile_summary import Summary
    from gpumemprof.profiler import CPUMemoryProfiler, GPUMemoryProfiler, ProfiledContext
    from gpumemprof.profiling import default_profiler, profile_context, profile_function
    from gpumemprof.snapshot import MemorySnapshot

# Imported on first use, so that programs that only read recordings do not pay for them.
_LATER = {
    "Allocation": "profile_stacks",
    "CPUMemoryProfiler": "profiler",
    "GPUMemoryProfiler": "profiler",
    "MemorySnapshot": "snapshot",
    "OwnAllocations": "profile_result",
    "ProfileResult": "profile_result",
    "ProfiledContext": "profiler",
    "Summary": "profile_summary",
    "default_profiler": "profiling",
    "profile_context": "profiling",
    "profile_function": "profiling",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_LATER[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})


__all__ = [
    "ActiveRecording",
    "Allocation",
    "CPUMemoryProfiler",
    "Counters",
    "CutFileWarning",
    "DeviceReport",
    "DeviceSources",
    "End",
    "EnvironmentProblem",
    "Error",
    "Frame",
    "GPUMemoryProfiler",
    "InputError",
    "InternalError",
    "Label",
    "LiveGroup",
    "MemorySnapshot",
    "MissingFileError",
    "Module",
    "NoCudaError",
    "OwnAllocations",
    "Peak",
    "Phase",
    "ProfileResult",
    "ProfiledContext",
    "Recording",
    "RecordingWarning",
    "SourceFigure",
    "Step",
    "Summary",
    "Table",
    "UsageError",
    "__version__",
    "default_profiler",
    "demo_path",
    "load",
    "profile_context",
    "profile_function",
    "record",
    "start",
    "step",
    "stop",
    "tag",
]
