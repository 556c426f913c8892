"""The memory of one device while a test runs, and the lines that allocated it."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any, Callable

from gpumemprof.profile.metering import CounterMeter, Meter, cpu_meter, cuda_meter
from gpumemprof.torch_calls import devices

if TYPE_CHECKING:
    from gpumemprof.profile.figures import ScopeFigures
    from gpumemprof.profile.memory_profiler import MemoryProfiler
    from gpumemprof.profile.monitoring import AnyScope
    from gpumemprof.profile.stacks import Allocation

__all__ = ["TestedDevice", "new_profiler"]


def _is_cpu(device: Any) -> bool:
    if device is None:
        return devices.why_no_cuda() is not None
    return str(device).partition(":")[0] == "cpu"


def new_profiler() -> MemoryProfiler:
    """For the current CUDA device, or for CPU tensors where there is no CUDA."""
    from gpumemprof.profile.profiler import CPUMemoryProfiler, GPUMemoryProfiler

    return CPUMemoryProfiler() if _is_cpu(None) else GPUMemoryProfiler()


class TestedDevice:
    """Counts what tests do; records only for a message."""

    __test__ = False

    def __init__(self, device: Any) -> None:
        """Count on this device; `None` is the current CUDA device, or else the CPU.

        Raises:
            Error: there is no such device.
        """
        self._is_cpu = _is_cpu(device)
        found = devices.cpu_device(device) if self._is_cpu else devices.cuda_device(device)
        self.name = "cpu" if self._is_cpu else str(found)
        self._index = -1 if self._is_cpu else int(found.index)
        self._meter: Meter = cpu_meter() if self._is_cpu else cuda_meter(self._index)

    @property
    def note(self) -> str | None:
        """Why figures are estimated; None if they are exact."""
        return self._meter.note

    def begin(self) -> AnyScope:
        """Begin to count."""
        return self._meter.open_scope(False)

    def end(self, scope: AnyScope) -> ScopeFigures | None:
        """What was counted; None if counting began anew meanwhile, as in a forked child."""
        figures = scope.close()
        if (problem := self._meter.check()) is not None:
            self._meter.stop()
            self._meter = CounterMeter(self._index, problem)
        return figures

    def allocated(self) -> int | None:
        """The bytes allocated now."""
        return self._meter.now().allocated_bytes

    def allocations_of(self, run: Callable[[], object]) -> list[Allocation]:
        """What a run allocates, with its lines; nothing if it fails.

        To record every test would cost more than small tests themselves.
        """
        from gpumemprof.profile.stacks import ScopeRecording

        recording = ScopeRecording(self._is_cpu, "cpu:0" if self._is_cpu else self.name)
        scope = self._meter.open_scope(False)
        has_failed = False
        try:
            run()
        except KeyboardInterrupt:
            raise
        except BaseException:  # pytest's own outcomes are no Exceptions.
            has_failed = True
        gc.collect()
        figures = scope.close()
        turnover = None if figures is None else figures.turnover
        recording.stop(0 if turnover is None else turnover.allocations)
        return [] if has_failed else recording.allocations()

    def close(self) -> None:
        """The last test has ended."""
        self._meter.stop()
