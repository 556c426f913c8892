"""MemorySnapshot: the state of a device's memory at one moment."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple, Union

from gpumemprof.profile.figures import MemoryFigures
from gpumemprof.profile.optional_math import difference

__all__ = ["LateSnapshot", "MemorySnapshot"]

LateStack = Union[str, Callable[[], Union[str, None]], None]
"""A stack, or a function that finds it."""


class MemorySnapshot:
    """The state of a device's memory at one moment, in bytes; ``None`` for what is unknown.

    >>> snapshot = MemorySnapshot(allocated_memory=3 << 20, reserved_memory=20 << 20)
    >>> snapshot.inactive_memory == snapshot.reserved_memory - snapshot.active_memory
    True
    >>> print(snapshot)
    3.00 MiB allocated, 20.0 MiB reserved
    """

    __slots__ = (
        "_late_stack",
        "active_memory",
        "allocated_memory",
        "cpu_memory",
        "device_id",
        "device_total",
        "device_used",
        "inactive_memory",
        "max_memory_allocated",
        "max_memory_reserved",
        "non_pytorch_memory",
        "operation",
        "reserved_memory",
        "timestamp",
    )

    timestamp: float
    """Seconds since 1970."""
    allocated_memory: int | None
    """Bytes of blocks that tensors hold; what ``torch.cuda.memory_allocated()`` says."""
    reserved_memory: int | None
    """Bytes the pool has taken from the driver; what ``torch.cuda.memory_reserved()`` says."""
    max_memory_allocated: int | None
    """The most allocated bytes in this process until then. torch's own counter starts it, and a
    reset of that counter does not lower it."""
    max_memory_reserved: int | None
    """The same for reserved bytes."""
    active_memory: int | None
    """Allocated bytes, and freed ones that a stream still uses."""
    inactive_memory: int | None
    """Reserved minus active bytes: cached and unused."""
    cpu_memory: int | None
    """This process's resident bytes; 0 when tracking is off, ``None`` where it was not read: at a
    peak, which is seen inside the allocator."""
    device_id: int
    """The device's index; -1 for CPU memory."""
    operation: str | None
    """What was being profiled."""
    device_used: int | None
    """Bytes in use on the whole card, by all processes."""
    device_total: int | None
    """The card's total memory in bytes."""
    non_pytorch_memory: int | None
    """This process's bytes on the card outside torch's pool."""

    def __init__(
        self,
        timestamp: float = 0.0,
        allocated_memory: int | None = 0,
        reserved_memory: int | None = 0,
        max_memory_allocated: int | None = None,
        max_memory_reserved: int | None = None,
        active_memory: int | None = -1,
        inactive_memory: int | None = -1,
        cpu_memory: int | None = 0,
        device_id: int = 0,
        operation: str | None = None,
        stack_trace: str | None = None,
        device_used: int | None = None,
        device_total: int | None = None,
        non_pytorch_memory: int | None = None,
    ) -> None:
        """Made by a profiler; by hand, active memory defaults to allocated memory."""
        self.timestamp = timestamp
        self.allocated_memory = allocated_memory
        self.reserved_memory = reserved_memory
        self.max_memory_allocated = (
            allocated_memory if max_memory_allocated is None else max_memory_allocated
        )
        self.max_memory_reserved = (
            reserved_memory if max_memory_reserved is None else max_memory_reserved
        )
        if active_memory == -1:
            active_memory = allocated_memory
        self.active_memory = active_memory
        if inactive_memory == -1:
            inactive_memory = difference(reserved_memory, active_memory)
        self.inactive_memory = inactive_memory
        self.cpu_memory = cpu_memory
        self.device_id = device_id
        self.operation = operation
        self._late_stack: Any = stack_trace
        self.device_used = device_used
        self.device_total = device_total
        self.non_pytorch_memory = non_pytorch_memory

    @property
    def stack_trace(self) -> str | None:
        """Where it was taken, one line per frame, innermost last; only if stacks are collected.

        At a peak, the stack of the allocation that reached it.

        >>> print(MemorySnapshot().stack_trace)
        None
        """
        if callable(self._late_stack):
            self._late_stack = self._late_stack()
        stack: str | None = self._late_stack
        return stack

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as a dictionary for JSON.

        >>> MemorySnapshot(allocated_memory=7).to_dict()["allocated_memory"]
        7
        """
        return {name: getattr(self, name) for name in FIELDS}

    def __eq__(self, other: object) -> bool:
        """Whether all figures are equal."""
        if not isinstance(other, MemorySnapshot):
            return NotImplemented
        return self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """All fields that are known."""
        known = [f"{name}={value!r}" for name, value in self.to_dict().items() if value is not None]
        return f"MemorySnapshot({', '.join(known)})"

    def __str__(self) -> str:
        """``3.0 MiB allocated, 20.0 MiB reserved``."""
        from gpumemprof.profile.text import size

        return f"{size(self.allocated_memory)} allocated, {size(self.reserved_memory)} reserved"


class LateSnapshot(NamedTuple):
    """A snapshot made on first use: most are never used, and a scope must cost little."""

    time_ns: int
    figures: MemoryFigures
    cpu_memory: int | None
    device_id: int
    operation: str
    stack: LateStack = None
    device_used: int | None = None
    device_total: int | None = None
    non_pytorch_memory: int | None = None

    def make(self) -> MemorySnapshot:
        figures = self.figures
        snapshot = MemorySnapshot(
            self.time_ns / 1e9,
            figures.allocated_bytes,
            figures.reserved_bytes,
            figures.most_allocated_bytes,
            figures.most_reserved_bytes,
            figures.active_bytes,
            difference(figures.reserved_bytes, figures.active_bytes),
            self.cpu_memory,
            self.device_id,
            self.operation,
            None,
            self.device_used,
            self.device_total,
            self.non_pytorch_memory,
        )
        snapshot._late_stack = self.stack
        return snapshot


FIELDS = (
    "timestamp",
    "allocated_memory",
    "reserved_memory",
    "max_memory_allocated",
    "max_memory_reserved",
    "active_memory",
    "inactive_memory",
    "cpu_memory",
    "device_id",
    "operation",
    "stack_trace",
    "device_used",
    "device_total",
    "non_pytorch_memory",
)
