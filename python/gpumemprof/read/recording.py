"""Recordings: a ``.gmp`` file or a PyTorch memory snapshot, opened and replayed."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, TypeVar, cast

from gpumemprof import _core
from gpumemprof._core import Table, TableKind
from gpumemprof.errors import CutFileWarning, UsageError
from gpumemprof.read.labels import Label
from gpumemprof.read.report import DeviceReport, DeviceSources, Frame

__all__ = ["Recording", "load"]

_TEXT_WIDTH = 100


def load(path: str | os.PathLike[str]) -> Recording:
    """Open a recording (a ``.gmp`` file or a PyTorch memory snapshot) and replay it.

    >>> import gpumemprof
    >>> gpumemprof.load(gpumemprof.demo_path()).devices[0].device
    'cuda:0'

    Args:
        path: a ``.gmp`` file from ``gpumemprof run`` or `record`, or a file written by
            ``torch.cuda.memory._dump_snapshot`` in torch 2.0 or later, plain or compressed with
            gzip. Nothing in it is executed, so untrusted files are safe to open.

    Raises:
        MissingFileError: the file does not exist (also a ``FileNotFoundError``).
        InputError: it is not a recording, or is too damaged to use any of it.

    A truncated file is opened as far as it goes, with a ``CutFileWarning``; ``cut`` says where it
    ends. The same warning reports anything else that is missing: lost events, or the end of a
    recording that was never closed (``completeness``).
    """
    recording = Recording(_core.open(os.fsencode(path)), os.fsdecode(path))
    if recording.cut is not None:
        warnings.warn(recording.cut, CutFileWarning, stacklevel=2)
    for sentence in recording._handle.missing:
        warnings.warn(f"{recording.path}: {sentence}", CutFileWarning, stacklevel=2)
    return recording


class Recording:
    """A recording opened by `load`: its report and its tables.

    Any library that takes Arrow data reads the tables in place::

        recording.allocations.to_pandas()
        polars.DataFrame(recording.allocations)
        pyarrow.table(recording.events)
        segments = recording.segments
        duckdb.sql("SELECT stream, sum(size_bytes) FROM segments GROUP BY stream")

    Each table has one batch per device. Events and segments are numbered from 0 on each device;
    unknown values are null.
    """

    def __init__(self, handle: _core.RecordingHandle, path: str) -> None:
        """Use `load` instead."""
        self._handle = handle
        self._path = path

    @property
    def path(self) -> str:
        """The file it was read from."""
        return self._path

    @property
    def cut(self) -> str | None:
        """A sentence that says where the file was truncated; ``None`` if it is complete."""
        return self._handle.cut

    @cached_property
    def completeness(self) -> dict[str, Any]:
        """How the recording ended, and which parts of the program's run are missing.

        As in ``report --json``: ``made`` = ``recorded`` + ``lost``, ``gaps`` with their times, and
        ``what_is_missing``, one sentence each. Unknown values are None.

        >>> load("run.gmp").completeness["lost"]  # doctest: +SKIP
        {'allocations': 0, 'frees': 0, 'others': 0}
        """
        return dict(json.loads(self._handle.completeness_json))

    @cached_property
    def devices(self) -> list[DeviceReport]:
        """The report of each device."""
        return [DeviceReport.from_json(device) for device in self.report()["devices"]]

    def sources(self, device: str | int | None = None) -> list[DeviceSources]:
        """Return what the memory was for: at the peak, over time, by step and by module.

        Figures are inferred from stacks, sizes and lifetimes, or measured if the recording names
        its storages; memory whose use cannot be determined is ``unknown``::

            for device in recording.sources():
                for name, figure in device.sources.items():
                    print(name, figure.bytes_at_peak, figure.provenance)

        Args:
            device: only this device, such as ``0``, ``"cuda:0"`` or ``"host"``.
        """
        return [DeviceSources.from_json(entry) for entry in self.report(device=device)["devices"]]

    def report(
        self,
        at: str | int = "peak",
        device: str | int | None = None,
        top: int | None = None,
    ) -> dict[str, Any]:
        """Return the report that ``gpumemprof report --json`` prints, as a dictionary.

        Args:
            at: the moment to report on: ``"peak"``, ``"end"``, or the number of an event.
            device: only this device, such as ``0``, ``"cuda:0"`` or ``"host"``.
            top: how many live groups to list; all by default.

        Raises:
            UsageError: the event or device does not exist.
        """
        report: dict[str, Any] = json.loads(self.to_json(at, device, top))
        return report

    def to_json(
        self,
        at: str | int = "peak",
        device: str | int | None = None,
        top: int | None = None,
    ) -> str:
        """Return the same as `report`, as JSON text."""
        return _core.report_json(
            self._handle, *_moment(at), _device_number(device), _at_least_0(top)
        )

    def to_text(
        self,
        at: str | int = "peak",
        device: str | int | None = None,
        top: int | None = None,
        width: int = _TEXT_WIDTH,
        modules: bool = False,
        steps: bool = False,
    ) -> str:
        """Return the human-readable report that ``gpumemprof report`` prints; see `report`.

        ``modules`` and ``steps`` add what each module held at the peak, and each step's phases.
        """
        return _core.report_text(
            self._handle,
            *_moment(at),
            _device_number(device),
            _at_least_0(top),
            width,
            modules,
            steps,
        )

    def replay(
        self,
        alloc_conf: str | Sequence[str] = (),
        *,
        memory_limit: int | Sequence[int] = (),
        torch_version: str | None = None,
        recorded_limit: int | None = None,
        device: str | int | None = None,
        search: bool = False,
    ) -> dict[str, Any]:
        """Replay the run under other allocator settings, as ``gpumemprof simulate --json`` does.

        The simulator first validates itself: ``devices[].verified`` holds how many placements,
        segments and counters of the recording it reproduced. The runs' figures are simulated::

            run = recording.replay("expandable_segments:True")["devices"][0]["runs"][-1]
            run["peak_reserved_bytes"], run["num_ooms"]

        Args:
            alloc_conf: ``PYTORCH_CUDA_ALLOC_CONF`` strings to try.
            memory_limit: limits on reserved memory to try, in bytes.
            torch_version: use this version's rules; by default those that match the recording.
            recorded_limit: the limit the recording ran under; inferred where possible by default.
            device: only this device.
            search: also try the settings worth trying, best first.

        Raises:
            UsageError: a setting does not exist, or a limit is below the first segment.
            InputError: no history was recorded.
        """
        confs, limits = _listed(alloc_conf, str), _listed(memory_limit, int)
        text = _core.replay_json(
            self._handle,
            confs,
            limits,
            torch_version,
            recorded_limit,
            _device_number(device),
            search,
        )
        result: dict[str, Any] = json.loads(text)
        return result

    def advise(
        self,
        *,
        fit: int | None = None,
        batch: int | None = None,
        sequence: int | None = None,
        device: str | int | None = None,
        other: Recording | None = None,
        together: Iterable[str] = (),
    ) -> dict[str, Any]:
        """Predict what each remedy would save in this run, as ``gpumemprof advise --json`` does.

        Every prediction has a band, and is ``None`` if the recording cannot support one::

            for remedy in recording.advise()["remedies"]:
                print(remedy["name"], remedy["predicted_peak_allocated_bytes"], remedy["why"])

        Args:
            fit: find the cheapest remedies that keep reserved memory below this many bytes.
            batch: the number of samples in a recorded batch, which recordings do not contain.
            sequence: the number of tokens in a recorded sequence, which they do not contain either.
            device: only this device; by default the one with the highest peak.
            other: a recording of the same program with another batch size or sequence length, which
                shows what grows with them.
            together: sets of remedies to predict together, such as ``"autocast_bf16+fused"``.

        Raises:
            UsageError: a number is not above 0, or a device or remedy does not exist.
            InputError: no history was recorded.
        """
        for name, number in [("fit", fit), ("batch", batch), ("sequence", sequence)]:
            if number is not None and number <= 0:
                raise UsageError(f"{name} takes a number above 0, not {number}")
        advice: dict[str, Any] = json.loads(
            _core.advice_json(
                self._handle,
                fit,
                batch,
                sequence,
                _device_number(device),
                None if other is None else other._handle,
                [names.split("+") for names in together],
            )
        )
        return advice

    def simulate(
        self,
        path: str | os.PathLike[str],
        alloc_conf: str = "",
        *,
        memory_limit: int | None = None,
        torch_version: str | None = None,
        recorded_limit: int | None = None,
        device: str | int | None = None,
        overwrite: bool = False,
    ) -> None:
        """Write the run as it would be under other settings, as a recording that `load` can open.

        The arguments are those of `replay`; ``overwrite`` replaces an existing file.
        """
        _core.write_simulated(
            self._handle,
            [alloc_conf],
            [] if memory_limit is None else [memory_limit],
            torch_version,
            recorded_limit,
            _device_number(device),
            os.fsencode(path),
            overwrite,
        )

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
                                  ``workspace``, ``temporaries``, ``kv_cache`` or
                                  ``unknown``
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
        """
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

    def __str__(self) -> str:
        """The human-readable report, as ``gpumemprof report`` prints it."""
        return self.to_text()

    def __repr__(self) -> str:
        """One line: the file, its devices and the number of events."""
        devices = ", ".join(self._handle.device_names) or "no device"
        cut = ", cut" if self.cut else ""
        count = self._handle.event_count
        events = f"{count:,} event{'' if count == 1 else 's'}"
        return f"<Recording {self._path!r}: {devices}, {events}{cut}>"

    def _table(self, kind: TableKind) -> Table:
        return _core.table(self._handle, kind)


_LARGEST_DEVICE = 1024
_LARGEST_EVENT = 2**32 - 2


_T = TypeVar("_T")


def _listed(values: _T | Sequence[_T], kind: type[_T]) -> list[_T]:
    return [values] if isinstance(values, kind) else list(cast("Sequence[_T]", values))


def _usage(message: str) -> UsageError:
    return UsageError(message, "usage")


def _device_number(device: str | int | None) -> int | None:
    if device is None:
        return None
    if isinstance(device, str):
        number = "-1" if device == "host" else device.rpartition(":")[2]
        if not number.lstrip("-").isdecimal():
            raise _usage(f"device takes a number or a name such as 'cuda:0', not {device!r}")
        device = int(number)
    if not -1 <= device <= _LARGEST_DEVICE:
        raise _usage(f"there is no device {device}")
    return device


def _moment(at: str | int) -> tuple[_core._Moment, int]:
    if at == "peak":
        return "peak", 0
    if at == "end":
        return "end", 0
    if isinstance(at, int) and 0 <= at <= _LARGEST_EVENT:
        return "event", at
    raise _usage(f"at takes an event's number, 'peak' or 'end', not {at!r}")


def _at_least_0(top: int | None) -> int | None:
    if top is not None and top < 0:
        raise _usage(f"top takes a number of at least 0, not {top}")
    return top
