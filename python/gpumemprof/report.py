"""The classes of a report, under the name that programs may import them by."""

from __future__ import annotations

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
