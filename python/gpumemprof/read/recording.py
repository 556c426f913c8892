"""Recordings: a ``.gmp`` file or a PyTorch memory snapshot, opened and replayed."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterable, Sequence
from functools import cached_property

from gpumemprof import _core
from gpumemprof.errors import CutFileWarning, UsageError
from gpumemprof.read.arguments import (
    at_least_0,
    device_number,
    listed,
    moment,
    number_range,
)
from gpumemprof.read.completeness import Completeness
from gpumemprof.read.json_advice import AdviceJson
from gpumemprof.read.json_leaks import LeaksJson
from gpumemprof.read.json_report import ReportJson
from gpumemprof.read.json_simulation import SimulationJson
from gpumemprof.read.report import DeviceReport, DeviceSources
from gpumemprof.read.tables import RecordingTables

__all__ = ["Recording", "load"]

_TEXT_WIDTH = 100


def load(
    path: str | os.PathLike[str],
    *,
    events: tuple[int, int] | None = None,
    steps: tuple[int, int] | None = None,
) -> Recording:
    """Open a recording (a ``.gmp`` file or a PyTorch memory snapshot) and replay it.

    >>> import gpumemprof
    >>> gpumemprof.load(gpumemprof.demo_path()).devices[0].device
    'cuda:0'

    Args:
        path: a ``.gmp`` file from ``gpumemprof run`` or `record`, or a file written by
            ``torch.cuda.memory._dump_snapshot`` in torch 2.0 or later, plain or compressed with
            gzip; or a folder that ``run --keep`` wrote. Nothing in it is executed, so untrusted
            files are safe to open.
        events: only the events from the first number up to the second, without it, of the device
            with the highest peak. Memory that was allocated before is included.
        steps: only these training steps, both included.

    A recording of up to a few million events is held in memory, 78 bytes an event. Of a longer one,
    reports come from its index, which is made beside it the first time, and tables are read in
    batches as they are asked for: memory does not grow with it. ``advise``, ``replay`` and
    ``simulate`` then read the steps around the peak, and their results say so.

    Of a part, ``report()`` numbers events and steps as in the whole run, and
    ``completeness["excerpt"]`` says which part it is. Its tables begin with the
    ``lead_in_events``, which allocate the memory that is older than the part.

    Raises:
        MissingFileError: the file does not exist (also a ``FileNotFoundError``).
        InputError: it is not a recording, or is too damaged to use any of it.

    A truncated file is opened as far as it goes, with a ``CutFileWarning``; ``cut`` says where it
    ends. The same warning reports anything else that is missing: lost events, or the end of a
    recording that was never closed (``completeness``).
    """
    if events is not None and steps is not None:
        raise UsageError(
            "load() takes either events or steps, not both: leave one of them out", "usage"
        )
    is_whole = events is None and steps is None
    long = _core.open_long(os.fsencode(path)) if is_whole else None
    handle = long or _core.open(
        os.fsencode(path), number_range("events", events), number_range("steps", steps)
    )
    recording = Recording(handle, os.fsdecode(path))
    if long is not None and long.note:
        warnings.warn(long.note, UserWarning, stacklevel=2)
    if recording.cut is not None:
        warnings.warn(recording.cut, CutFileWarning, stacklevel=2)
    for sentence in recording._handle.missing:
        warnings.warn(f"{recording.path}: {sentence}", CutFileWarning, stacklevel=2)
    return recording


class Recording(RecordingTables):
    """A recording opened by `load`: its report and its tables.

    Any library that takes Arrow data reads the tables in place::

        recording.allocations.to_pandas()
        polars.DataFrame(recording.allocations)
        pyarrow.table(recording.events)
        segments = recording.segments
        duckdb.sql("SELECT stream, sum(size_bytes) FROM segments GROUP BY stream")

    Each table has one batch per device. Events and segments are numbered from 0 on each device;
    unknown values are null. Of a long recording, a table has many batches, which are read as they
    are asked for: ``pyarrow.RecordBatchReader.from_stream(recording.events)`` takes one after the
    other, and DuckDB holds no more than its query needs.
    """

    def __init__(self, handle: _core.RecordingHandle | _core.LongHandle, path: str) -> None:
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
    def completeness(self) -> Completeness:
        """How the recording ended, and which parts of the program's run are missing.

        As in ``report --json``: ``made`` = ``recorded`` + ``lost``, ``gaps`` with their times, and
        ``what_is_missing``, one sentence each. Unknown values are None.

        >>> load("run.gmp").completeness["lost"]  # doctest: +SKIP
        {'allocations': 0, 'frees': 0, 'others': 0}
        """
        completeness: Completeness = json.loads(self._handle.completeness_json)
        return completeness

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
    ) -> ReportJson:
        """Return the report that ``gpumemprof report --json`` prints, as a dictionary.

        Args:
            at: the moment to report on: ``"peak"``, ``"end"``, the number of an event, or
                ``"step:5"``, the peak of that step.
            device: only this device, such as ``0``, ``"cuda:0"`` or ``"host"``.
            top: how many live groups to list; all by default.

        Raises:
            UsageError: the event or device does not exist.
        """
        report: ReportJson = json.loads(self.to_json(at, device, top))
        return report

    def to_json(
        self,
        at: str | int = "peak",
        device: str | int | None = None,
        top: int | None = None,
    ) -> str:
        """Return the same as `report`, as JSON text."""
        return _core.report_json(self._handle, *moment(at), device_number(device), at_least_0(top))

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
            *moment(at),
            device_number(device),
            at_least_0(top),
            width,
            modules,
            steps,
        )

    def leaks(
        self,
        *,
        memory_limit: int | None = None,
        suppress: str | Sequence[str] = (),
        device: str | int | None = None,
    ) -> LeaksJson:
        """Find memory that is never freed, as ``gpumemprof leaks --json`` does.

        ::

            found = recording.leaks()
            for leak in found["leaks"]:
                print(leak["file"], leak["line"], leak["bytes_per_step"], leak["advice"])

        Args:
            memory_limit: predict when this many bytes are used up, instead of the card's memory.
            suppress: lines that may grow, such as ``"train.py:12"``, or files.
            device: only this device.

        Raises:
            UsageError: the device does not exist, or the limit is not above 0.
        """
        if memory_limit is not None and memory_limit <= 0:
            raise UsageError(f"memory_limit takes a number above 0, not {memory_limit}")
        text = _core.leaks_json(
            self._handle, memory_limit, listed(suppress, str), device_number(device)
        )
        result: LeaksJson = json.loads(text)
        return result

    def replay(
        self,
        alloc_conf: str | Sequence[str] = (),
        *,
        memory_limit: int | Sequence[int] = (),
        torch_version: str | None = None,
        recorded_limit: int | None = None,
        device: str | int | None = None,
        search: bool = False,
    ) -> SimulationJson:
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
        confs, limits = listed(alloc_conf, str), listed(memory_limit, int)
        text = _core.replay_json(
            self._with_events(),
            confs,
            limits,
            torch_version,
            recorded_limit,
            device_number(device),
            search,
        )
        result: SimulationJson = json.loads(text)
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
    ) -> AdviceJson:
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
        advice: AdviceJson = json.loads(
            _core.advice_json(
                self._with_events(),
                fit,
                batch,
                sequence,
                device_number(device),
                None if other is None else other._with_events(),
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
            self._with_events(),
            [alloc_conf],
            [] if memory_limit is None else [memory_limit],
            torch_version,
            recorded_limit,
            device_number(device),
            os.fsencode(path),
            overwrite,
        )

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

    def _repr_html_(self) -> str:
        from gpumemprof.read.html import recording_html

        return recording_html(self)
