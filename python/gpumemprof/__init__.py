"""Where every byte of GPU memory goes in a PyTorch run, why it ran out, and what to change.

Dump a snapshot in the run, and ask it anything afterwards, on any machine::

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

``print(recording)`` is the report that ``gpumemprof report`` prints. The tables
(``recording.events``, ``allocations``, ``segments``, ``stacks``, ``frames``) are read in place by
PyArrow, Polars, DuckDB and pandas.
"""

from gpumemprof._core import Table, __version__
from gpumemprof._demo import demo_path
from gpumemprof.errors import (
    CutFileWarning,
    EnvironmentProblem,
    Error,
    InputError,
    InternalError,
    MissingFileError,
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

__all__ = [
    "ActiveRecording",
    "Counters",
    "CutFileWarning",
    "DeviceReport",
    "DeviceSources",
    "End",
    "EnvironmentProblem",
    "Error",
    "Frame",
    "InputError",
    "InternalError",
    "Label",
    "LiveGroup",
    "MissingFileError",
    "Module",
    "Peak",
    "Phase",
    "Recording",
    "RecordingWarning",
    "SourceFigure",
    "Step",
    "Table",
    "UsageError",
    "__version__",
    "demo_path",
    "load",
    "record",
    "start",
    "step",
    "stop",
    "tag",
]
