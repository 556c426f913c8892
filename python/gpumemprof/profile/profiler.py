"""GPUMemoryProfiler and CPUMemoryProfiler: the exact memory use of functions and blocks of code.

::

    profiler = GPUMemoryProfiler(device="cuda:0")
    result = profiler.profile_function(train_step, model, data)
    print(result)

Every figure comes from the allocator's own events, counted in native code as they happen. Peaks are
exact for every scope, however scopes nest, overlap or run in threads, and torch's own peak counters
are left untouched.
"""

from __future__ import annotations

from typing import Any

from gpumemprof.profile.memory_profiler import MemoryProfiler
from gpumemprof.profile.metering import cpu_meter, cuda_meter
from gpumemprof.profile.monitored_device import Card, outside_of_pool
from gpumemprof.profile.scopes import ProfiledContext
from gpumemprof.torch_calls import cards, devices

__all__ = ["CPUMemoryProfiler", "GPUMemoryProfiler", "ProfiledContext"]


class GPUMemoryProfiler(MemoryProfiler):
    """Measures what functions and blocks of code do to the memory of one CUDA device.

    ::

        profiler = GPUMemoryProfiler(device="cuda:0")
        result = profiler.profile_function(train_step, model, data)
        with profiler.profile_context("load") as context: ...

    >>> GPUMemoryProfiler().profile_function(train_step, model, data)  # doctest: +SKIP
    <ProfileResult 'train_step': peak 8519680 B, change +4004352 B, 0.001837 s>

    Args:
        device: an index, a string such as ``"cuda:0"``, a ``torch.device``, or ``None`` for the
            current device.
        track_tensors: count storages allocated and freed; this costs nothing.
        track_cpu_memory: read this process's resident memory at both ends of each scope.
        collect_stack_traces: keep the stack of every allocation in a scope.
        synchronize: wait for the device at both ends of a scope, so that times cover the work and
            not just its launch. Memory figures do not depend on it.

    Raises:
        NoCudaError: there is no CUDA device (also a ``RuntimeError``).
        UsageError: the device does not exist, or is not CUDA (also a ``ValueError``).
    """

    def __init__(
        self,
        device: Any = None,
        track_tensors: bool = True,
        track_cpu_memory: bool = True,
        collect_stack_traces: bool = False,
        *,
        synchronize: bool = True,
    ) -> None:
        """Attach to the device's allocator, and take the baseline."""
        found = devices.cuda_device(device)
        self._wait_for_device = devices.synchronizer(found)
        self._card_total = cards.card_total(found.index)
        super().__init__(
            found,
            cuda_meter(found.index),
            track_tensors,
            track_cpu_memory,
            collect_stack_traces,
            synchronize,
        )

    def _wait(self) -> bool:
        return self._wait_for_device()

    def _card_id(self) -> str:
        return cards.card_ids().get(self._device_id, "")

    def _card(self) -> Card:
        try:
            return Card(*cards.card_memory(self._device_id))
        except Exception:
            return Card(None, self._card_total)  # the device has failed; the program will find out

    def _card_and_outside(self, reserved: int | None) -> tuple[Card, int | None]:
        used, process = cards.card_sample(self._device_id)
        return Card(used, self._card_total), outside_of_pool(process, reserved)


class CPUMemoryProfiler(MemoryProfiler):
    """The same API for CPU tensors; works on any machine.

    It counts the memory that torch itself allocates for CPU tensors from the moment the first
    CPUMemoryProfiler is created; it does not know older tensors. There is no pool, so reserved and
    active memory equal allocated memory.

    >>> profiler = CPUMemoryProfiler()  # doctest: +SKIP
    >>> result = profiler.profile_function(torch.empty, 1000)  # doctest: +SKIP
    >>> result.memory_allocated, result.tensors_created  # doctest: +SKIP
    (4000, 1)

    Args: as for `GPUMemoryProfiler`; there is no device to wait for.

    Raises:
        NoCudaError: torch is not installed (also a ``RuntimeError``).
        UsageError: the device is not the CPU (also a ``ValueError``).
    """

    def __init__(
        self,
        device: Any = None,
        track_tensors: bool = True,
        track_cpu_memory: bool = True,
        collect_stack_traces: bool = False,
        *,
        synchronize: bool = True,
    ) -> None:
        """Start counting CPU tensors, and take the baseline."""
        super().__init__(
            devices.cpu_device(device),
            cpu_meter(),
            track_tensors,
            track_cpu_memory,
            collect_stack_traces,
            synchronize,
        )
