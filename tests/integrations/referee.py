"""Counts what a program allocates, by torch's own profiler: nothing of gpumemprof is in it.

The profiler is told of every block by libc10's reporter, while gpumemprof follows the calls to the
system's allocator below it. Start it as soon as torch is there. It counts the thread that starts it
and autograd's.
"""

from __future__ import annotations

from torch.profiler import ProfilerActivity, profile


class Referee:
    def __init__(self) -> None:
        self._profile = profile(activities=[ProfilerActivity.CPU], profile_memory=True)
        self._profile.start()

    def peak(self) -> int:
        """Ends the count; the most bytes that were live at once."""
        self._profile.stop()
        results = self._profile.profiler.kineto_results
        changes = [event for event in results.events() if event.name() == "[memory]"]
        changes.sort(key=lambda event: event.start_ns())
        live = most = 0
        for event in changes:
            live += event.nbytes()
            most = max(most, live)
        return most
