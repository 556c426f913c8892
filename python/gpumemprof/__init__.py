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

Nothing here is a test, for pytest: PYTEST_DONT_REWRITE
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
    LeakWarning,
    MissingFileError,
    NoCudaError,
    RecordingWarning,
    UsageError,
)

if TYPE_CHECKING:
    from gpumemprof.alerts.rule import Alert
    from gpumemprof.alerts.tracker import MemoryTracker
    from gpumemprof.estimate.notebook import Estimate, estimate, estimating
    from gpumemprof.holders.expected import Expectation, expect_freed
    from gpumemprof.holders.leak import Leak
    from gpumemprof.holders.watch import LeakWatch, watch_leaks
    from gpumemprof.hooks.steps import step, tag
    from gpumemprof.profile.memory_state import MemorySnapshot
    from gpumemprof.profile.profiler import CPUMemoryProfiler, GPUMemoryProfiler, ProfiledContext
    from gpumemprof.profile.result import OwnAllocations, ProfileResult
    from gpumemprof.profile.shortcuts import default_profiler, profile_context, profile_function
    from gpumemprof.profile.stacks import Allocation
    from gpumemprof.profile.summary import Summary
    from gpumemprof.read.labels import Label
    from gpumemprof.read.recording import Recording, load
    from gpumemprof.read.report import (
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
    from gpumemprof.recorder.active import ActiveRecording
    from gpumemprof.recorder.api import record, start, stop

# Imported on first use, so that nobody pays for what they do not use: a program that reads
# recordings, or one whose tests are measured.
_LATER = {
    "ActiveRecording": "recorder.active",
    "Alert": "alerts.rule",
    "Allocation": "profile.stacks",
    "CPUMemoryProfiler": "profile.profiler",
    "Counters": "read.report",
    "DeviceReport": "read.report",
    "DeviceSources": "read.report",
    "End": "read.report",
    "Estimate": "estimate.notebook",
    "Expectation": "holders.expected",
    "Frame": "read.report",
    "GPUMemoryProfiler": "profile.profiler",
    "Label": "read.labels",
    "Leak": "holders.leak",
    "LeakWatch": "holders.watch",
    "LiveGroup": "read.report",
    "MemorySnapshot": "profile.memory_state",
    "MemoryTracker": "alerts.tracker",
    "Module": "read.report",
    "OwnAllocations": "profile.result",
    "Peak": "read.report",
    "Phase": "read.report",
    "ProfileResult": "profile.result",
    "ProfiledContext": "profile.profiler",
    "Recording": "read.recording",
    "SourceFigure": "read.report",
    "Step": "read.report",
    "Summary": "profile.summary",
    "default_profiler": "profile.shortcuts",
    "estimate": "estimate",
    "estimating": "estimate.notebook",
    "expect_freed": "holders.expected",
    "load": "read.recording",
    "profile_context": "profile.shortcuts",
    "profile_function": "profile.shortcuts",
    "record": "recorder.api",
    "start": "recorder.api",
    "step": "hooks.steps",
    "stop": "recorder.api",
    "tag": "hooks.steps",
    "watch_leaks": "holders.watch",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "estimate":  # a package that can be called
        return importlib.import_module(f"{__name__}.estimate")
    value = getattr(importlib.import_module(f"{__name__}.{_LATER[name]}"), name)
    globals()[name] = value
    return value


def load_ipython_extension(shell: Any) -> None:
    """For ``%load_ext gpumemprof`` in IPython and notebooks."""
    from gpumemprof.integrations.notebook import magics

    magics.load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """For ``%unload_ext gpumemprof``."""
    from gpumemprof.integrations.notebook import magics

    magics.unload(shell)


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = [
    "ActiveRecording",
    "Alert",
    "Allocation",
    "CPUMemoryProfiler",
    "Counters",
    "CutFileWarning",
    "DeviceReport",
    "DeviceSources",
    "End",
    "EnvironmentProblem",
    "Error",
    "Estimate",
    "Expectation",
    "Frame",
    "GPUMemoryProfiler",
    "InputError",
    "InternalError",
    "Label",
    "Leak",
    "LeakWarning",
    "LeakWatch",
    "LiveGroup",
    "MemorySnapshot",
    "MemoryTracker",
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
    "estimate",
    "estimating",
    "expect_freed",
    "load",
    "profile_context",
    "profile_function",
    "record",
    "start",
    "step",
    "stop",
    "tag",
    "watch_leaks",
]
