"""What a recorded program reported about its own memory."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Label"]


class Label(NamedTuple):
    """One allocation that the recorded program named, from `Recording.labels`.

    ::

        for label in gpumemprof.load("run.gmp").labels():
            print(label.name, label.source, label.requested_bytes)
    """

    device: str
    source: str
    """``parameters`` (buffers too), ``gradients``, ``optimizer_state`` or ``inputs``."""
    name: str
    """Such as ``h.3.mlp.c_fc.weight``, ``h.3.mlp.c_fc.weight.grad`` or ``… exp_avg``."""
    is_buffer: bool
    provenance: str
    """``measured``, or ``inferred`` for a batch known by the line that brings it."""
    address: int
    requested_bytes: int
    """The size of the tensor's storage."""
    size_bytes: int
    """The size of the block, which is what it takes from the pool."""
    alloc_event: int | None
    """None: before the recording began."""
    free_requested_event: int | None
    """None: not by the end."""

    def is_live_after(self, event: int) -> bool:
        """Whether the allocation is live right after that event."""
        return (self.alloc_event is None or self.alloc_event <= event) and (
            self.free_requested_event is None or self.free_requested_event > event
        )
