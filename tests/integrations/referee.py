"""Counts what a program allocates, using only torch itself: no part of gpumemprof is involved.

libc10 has a reporter that sums what its CPU allocator hands out, in all threads once its flag is
set, and reports its total to torch's profiler. gpumemprof hooks the calls to the system allocator
below it. Start it as soon as torch is loaded; the peak must be reached in the thread that starts
it, or in one of autograd's.
"""

from __future__ import annotations

import ctypes
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile


class Referee:
    def __init__(self) -> None:
        library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libc10.so"))
        ctypes.c_bool.in_dll(library, "FLAGS_caffe2_report_cpu_memory_usage").value = True
        self._profile = profile(activities=[ProfilerActivity.CPU], profile_memory=True)
        self._profile.start()

    def peak(self) -> int:
        """Ends the count; returns the most bytes that were live at once."""
        self._profile.stop()
        pending = list(self._profile.profiler.kineto_results.experimental_event_tree())
        most = 0
        while pending:
            event = pending.pop()
            pending += event.children
            kind, fields = event.typed
            if kind == torch._C._profiler._EventType.Allocation:
                most = max(most, fields.total_allocated)
        return most
