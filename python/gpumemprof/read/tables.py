"""The tables of a recording, and what their columns refer to."""

from __future__ import annotations

from gpumemprof import _core
from gpumemprof._core import Table, TableKind
from gpumemprof.errors import UsageError
from gpumemprof.read.labels import Label
from gpumemprof.read.report import Frame

__all__ = ["RecordingTables"]


class RecordingTables:
    """What `Recording` has of tables."""

    _handle: _core.RecordingHandle | _core.LongHandle

    @property
    def events(self) -> Table:
        """What the allocator did, in order.

        ======================= ==========================================================
        ``device``              the device's number; -1 is pinned host memory
        ``event``               the event's number on its device, from 0
        ``action``              ``alloc``, ``free_requested``, ``free_completed``,
                                ``segment_alloc``, ``segment_free``, ``segment_map``,
                                ``segment_unmap``, ``snapshot``, ``oom``, ``annotate``,
                                ``other``
        ``address``             null for an ``oom``
        ``size_bytes``          requested bytes for blocks, full size for segments
        ``stream``              index into ``Recording.streams``
        ``time_ns``             nanoseconds since 1970, UTC; null where not recorded
        ``stack``               row of ``stacks``; null where not recorded
        ``compile_context``     the compiled region; null if none
        ``user_metadata``       the user's own label; null if none
        ``pool``                index into ``Recording.pools``; null where not recorded
        ``device_free_bytes``   the device's free memory at an ``oom``; otherwise null
        ``forward_stack``       for memory allocated in backward: row of ``stacks`` for the call of
                                the forward op; null where not recorded
        ``module``              for an ``alloc`` or ``oom``: the path of the innermost module that
                                made it, such as ``transformer.h.3.mlp``; in backward, that of
                                the forward op; the class for a module outside any model; null
                                if none, and in snapshots
        ======================= ==========================================================
        """
        return self._table(TableKind.events)

    @property
    def allocations(self) -> Table:
        """Every allocated block, with its lifetime, actual size and stack.

        ========================= ========================================================
        ``device``                the device's number
        ``address``
        ``size_bytes``            of the block: what it takes from the pool
        ``requested_bytes``       what the program requested
        ``alloc_event``           null: before the history began
        ``free_requested_event``  when its owner freed it; null: not by the end
        ``free_completed_event``  when it could be reused; null: not by the end
        ``stream``                index into ``Recording.streams``
        ``stack``                 row of ``stacks``; null where not recorded
        ``segment``               its number in the device's ``segments``; null if unknown
        ``source``                what it is for: ``parameters``, ``gradients``,
                                  ``optimizer_state``, ``activations``, ``inputs``,
                                  ``workspace``, ``temporaries``, ``kv_cache``,
                                  ``communication`` or ``unknown``
        ``name``                  of the tensor, such as ``h.3.mlp.c_fc.weight.grad``; null if the
                                  recording does not name it
        ``tag``                   the `gpumemprof.tag` it was allocated in; null if none
        ``step``                  training step it was allocated in, from 1; null before the first
        ``time_ns``               when it was allocated, nanoseconds since 1970, UTC; null where
                                  not recorded
        ``free_time_ns``          when it was freed; null: not by the end, or not recorded
        ``file``                  of the line of your code that allocated it: the innermost frame
                                  outside installed packages; in backward, of the line whose
                                  gradient was computed; null without a stack
        ``line``                  the number of that line
        ``function``              its function
        ``module``                the module that owns it, if it is a parameter, a gradient or
                                  optimizer state; otherwise the one that allocated it; null if
                                  none, and in snapshots
        ========================= ========================================================

        A block is live after event *e* if ``alloc_event`` is null or at most *e*, and
        ``free_requested_event`` is null or greater than *e*.
        """
        return self._table(TableKind.allocations)

    def labels(self) -> list[Label]:
        """Return the allocations that the recorded program itself named.

        Parameters, buffers, gradients, optimizer state and inputs with their names, in order of
        allocation; empty for a snapshot, and if no labels were recorded.

        ::

            [label.name for label in recording.labels() if label.source == "gradients"]

        Raises:
            UsageError: the recording is too long for one list of them.
        """
        if isinstance(self._handle, _core.LongHandle):
            raise UsageError(
                f"labels() lists every allocation that has a name, too many in a recording of "
                f"{self._handle.event_count:,} events: load a part of it, such as load(..., "
                f"steps=(1, 3)), or read the column 'name' of the table allocations",
                "usage",
            )
        return [Label(*row) for row in _core.labels(self._handle)]

    @property
    def segments(self) -> Table:
        """Memory the pool took from the driver: segments, and mapped pieces of expandable ones.

        ================= ================================================================
        ``device``        the device's number
        ``segment``       the segment's number on its device, from 0
        ``address``
        ``size_bytes``
        ``birth_event``   null: before the history began
        ``death_event``   null: still there at the end
        ``stream``        index into ``Recording.streams``
        ``pool``          index into ``Recording.pools``; null if unknown
        ``is_expandable``
        ``is_small``      serves requests up to 1 MiB
        ``stack``         row of ``stacks``; null where not recorded
        ================= ================================================================
        """
        return self._table(TableKind.segments)

    @property
    def stacks(self) -> Table:
        """Every distinct call stack, stored as a link to its caller; shared by all devices.

        ========== =======================================================================
        ``stack``  the stack's number, from 0
        ``caller`` the stack it was called from; null for the outermost frame
        ``frame``  its innermost frame, row of ``frames``
        ========== =======================================================================
        """
        return self._table(TableKind.stacks)

    @property
    def frames(self) -> Table:
        """Every distinct frame; shared by all devices.

        ========= ========================================================================
        ``frame`` the frame's number, from 0
        ``name``  of the function
        ``file``
        ``line``
        ========= ========================================================================
        """
        return self._table(TableKind.frames)

    @property
    def streams(self) -> list[int]:
        """The stream handles that ``stream`` columns index; 0 is the default stream."""
        return self._handle.streams

    @property
    def pools(self) -> list[tuple[int, int]]:
        """The memory pools that ``pool`` columns index.

        ``(0, 0)`` is the default pool, ``(n, 0)`` a CUDA graph's own, ``(0, n)`` a user's.
        """
        return self._handle.pools

    def stack(self, id: int) -> list[Frame]:
        """Return the frames of a stack, innermost first.

        Args:
            id: the stack's number, as in the ``stack`` columns.
        """
        return [Frame(*frame) for frame in self._handle.stack(id)]

    def _with_events(self) -> _core.RecordingHandle:
        """All of it, or the steps around the peak of a long one."""
        if isinstance(self._handle, _core.LongHandle):
            return self._handle.around_peak()
        return self._handle

    def _table(self, kind: TableKind) -> Table:
        return _core.table(self._handle, kind)
