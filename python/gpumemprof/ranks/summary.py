"""RankSummary: the summary of one rank, as its file has it; see docs/format.md."""

from __future__ import annotations

import contextlib
import json
import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any

from gpumemprof.errors import InputError
from gpumemprof.recorder.rank_summary import SUFFIX

__all__ = [
    "Dimension",
    "Ending",
    "Held",
    "LeakLine",
    "OomNote",
    "RankSummary",
    "parse_head",
    "read_column",
    "read_rows",
]

_FORMAT = "gpumemprof rank summary"
# How lines about a device begin in our writer's form.
_WRITTEN = re.compile(rb'\{"device":(\d{1,9}),"(?:column":"([ -!#-[\]-~]*)",)?')
_VERSION = 1

Named = tuple[tuple[str, int], ...]
"""Names and bytes, most bytes first."""


@dataclass(frozen=True)
class Dimension:
    """One dimension of the mesh, and this rank's place in it."""

    name: str
    coordinate: int
    size: int | None


@dataclass(frozen=True)
class Ending:
    """How the process ended; None for what is not known."""

    is_closed: bool | None
    reason: str | None
    problem: str | None
    failure_type: str | None
    failure_place: str | None
    failure_unix_ns: int | None
    is_failure_of_peer: bool


@dataclass(frozen=True)
class LeakLine:
    """A line whose memory grows from step to step."""

    line: str | None
    bytes_per_step: int
    first_step: int


@dataclass(frozen=True)
class OomNote:
    """One allocation that failed."""

    unix_ns: int | None
    step: int | None
    wanted_bytes: int
    cause: str
    is_proven: bool
    line: str | None


@dataclass(frozen=True)
class Held:
    """The largest lines and modules at the peak."""

    sites: Named
    sites_left_out: int
    modules: Named


@dataclass
class RankSummary:
    """What is known about one rank. Bytes; None for what is not known, never 0."""

    path: str
    """The file it was read from: a summary or a recording."""
    recording: str | None
    """The recording; None if only the summary is there."""
    has_file: bool
    """Whether it was read from a summary."""
    recording_bytes: int
    """The size of the recording when the summary was made; 0 for one in chapters."""
    rank: int | None
    local_rank: int | None
    world_size: int | None
    mesh: tuple[Dimension, ...]
    job: str | None
    restart_count: int | None
    host: str | None
    pid: int | None
    command: str | None
    torch: str | None
    gpumemprof: str | None
    is_whole: bool
    ending: Ending
    first_unix_ns: int | None
    last_unix_ns: int | None
    device: str
    device_row: int
    card: str | None
    total_bytes: int | None
    memory_fraction: float | None
    firmware_bytes: int | None
    other_processes_bytes: int | None
    peak_bytes: int | None
    peak_step: int | None
    peak_phase: str | None
    reserved_bytes: int | None
    outside_bytes: int | None
    least_free_bytes: int | None
    retries: int | None
    ooms: int | None
    is_exact: bool
    outside_by_kind: dict[str, int] = field(default_factory=dict)
    """What the memory outside of the pool is for at the end (inferred); empty if not known."""
    nccl_bytes: int | None = None
    """The most that NCCL's communicators held outside of the pool."""
    nccl_provenance: str | None = None
    """``measured``, as NCCL says, or ``inferred``, from what the card's use grew by."""
    sources: dict[str, int] = field(default_factory=dict)
    """Bytes by source at the peak."""
    most_by_source: dict[str, int] = field(default_factory=dict)
    held_line: bytes = b""
    """What holds the memory at the peak, as the file has it: few ranks are looked at so closely."""
    leak_verdict: str | None = None
    leak_bytes_per_step: int = 0
    leak_lines: tuple[LeakLine, ...] = ()
    oom_notes: tuple[OomNote, ...] = ()
    step_count: int = 0
    steps: array[int] = field(default_factory=lambda: array("q"))
    """The numbers of the steps."""
    step_peaks: array[int] = field(default_factory=lambda: array("q"))
    lines: list[bytes] = field(default_factory=list)
    """All lines of a summary that has no file: making it again would read the recording again."""

    @property
    def number(self) -> int:
        """The rank; -1 if it is not known."""
        return -1 if self.rank is None else self.rank

    @property
    def file_name(self) -> str:
        """Of the recording, also where only its summary is there."""
        return Path(self.path).name.removesuffix(SUFFIX)

    @property
    def title(self) -> str:
        """``rank 3``; the name of its file if it says no number."""
        return self.file_name if self.rank is None else f"rank {self.rank}"

    @property
    def held(self) -> Held:
        """What holds the memory at the peak."""
        with contextlib.suppress(ValueError, KeyError, TypeError):
            return self._parsed_held()
        return Held((), 0, ())

    def _parsed_held(self) -> Held:
        row = json.loads(self.held_line)
        return Held(
            _named(row["sites"], "line"), row["sites_left_out"], _named(row["modules"], "module")
        )

    @property
    def last_step(self) -> int | None:
        """The step it was in at its end; None if no step was recognized."""
        return self.steps[-1] if self.steps else None

    @property
    def is_headroom_bound(self) -> bool:
        """Whether there was less headroom: what is outside of the pool is not known."""
        return self.outside_bytes is None

    @property
    def headroom_bytes(self) -> int | None:
        """What the rank could still have taken at its peak; None if the card is not known.

        The peak of the pool and what is outside of it need not be at the same moment, so there may
        have been more.
        """
        if self.total_bytes is None or self.reserved_bytes is None:
            return None
        others = (self.firmware_bytes or 0) + (self.other_processes_bytes or 0)
        of_card = self.total_bytes - others - (self.outside_bytes or 0) - self.reserved_bytes
        if self.memory_fraction is None:
            return of_card
        return min(of_card, int(self.total_bytes * self.memory_fraction) - self.reserved_bytes)


def _named(rows: Iterable[dict[str, Any]], key: str) -> Named:
    return tuple((row[key] or "unknown line", _count(row["bytes"])) for row in rows)


# A summary comes from another machine, and may have been changed: what is not of its type is
# refused here, and never met again.
_MOST = 1 << 62


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= _MOST:
        raise ValueError(value)
    return value


def _count_or_none(value: Any) -> int | None:
    return None if value is None else _count(value)


def _time_or_none(value: Any) -> int | None:
    """What a wrong clock says is not known; the rank still counts."""
    if type(value) is int and not 0 <= value <= _MOST:
        return None
    return _count_or_none(value)


def _text_or_none(value: Any) -> str | None:
    if value is not None and type(value) is not str:
        raise ValueError(value)
    return value


def _flag(value: Any) -> bool:
    if type(value) is not bool:
        raise ValueError(value)
    return value


def _share_or_none(value: Any) -> float | None:
    if value is None:
        return None
    if type(value) not in (int, float) or not 0 <= value <= 1:
        raise ValueError(value)
    return float(value)


def _ending(row: dict[str, Any]) -> Ending:
    is_closed = row["is_closed"]
    return Ending(
        None if is_closed is None else _flag(is_closed),
        _text_or_none(row["reason"]),
        _text_or_none(row["problem"]),
        _text_or_none(row["failure_type"]),
        _text_or_none(row["failure_place"]),
        _time_or_none(row["failure_unix_ns"]),
        _flag(row["is_failure_of_peer"]),
    )


def _dimension(row: dict[str, Any]) -> Dimension:
    return Dimension(str(row["dimension"]), _count(row["coordinate"]), _count_or_none(row["size"]))


def _leak_line(row: dict[str, Any]) -> LeakLine:
    line = _text_or_none(row["line"])
    return LeakLine(line, _count(row["bytes_per_step"]), _count(row["first_step"]))


def _oom_note(row: dict[str, Any]) -> OomNote:
    return OomNote(
        _time_or_none(row["unix_ns"]),
        _count_or_none(row["step"]),
        _count(row["wanted_bytes"]),
        str(row["cause"]),
        _flag(row["is_proven"]),
        _text_or_none(row["line"]),
    )


def _refuse(text: str) -> float:
    raise ValueError(text)


def parse_head(line: bytes, path: str, recording: str | None, has_file: bool) -> RankSummary:
    """The first line of a summary.

    Raises:
        InputError: it is none, or of another version.
    """
    try:
        head = json.loads(line, parse_constant=_refuse)
        if head["format"] != _FORMAT:
            raise ValueError
        if head["version"] != _VERSION:
            raise InputError(
                f"a summary of version {head['version']}, which this gpumemprof cannot read",
                "bad_input",
                path,
                "install a newer gpumemprof",
            )
        return _summary(head, path, recording, has_file)
    except InputError:
        raise
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError):
        if not has_file:
            raise InputError(
                "cannot be read as a rank",
                "bad_input",
                path,
                "copy it to this machine and see it with gpumemprof report"
                if "://" in path
                else f"see it with: gpumemprof report {path}",
            ) from None
        raise InputError(
            "not a summary of a rank, or a damaged one",
            "bad_input",
            path,
            "copy it again from where it was written"
            if recording is None
            else "delete it; the recording beside it is read instead",
        ) from None


_PROCESS_NUMBERS = ("rank", "local_rank", "world_size", "restart_count", "pid")
_PROCESS_TEXTS = ("job", "host", "command", "torch", "gpumemprof")
_DEVICE_NUMBERS = (
    *("total_bytes", "firmware_bytes", "other_processes_bytes", "peak_bytes", "peak_step"),
    *("reserved_bytes", "outside_bytes", "least_free_bytes", "retries", "ooms"),
)


def _summary(head: dict[str, Any], path: str, recording: str | None, has_file: bool) -> RankSummary:
    process = head["process"]
    if not head["devices"]:
        raise InputError("it holds no memory events", "bad_input", path, "name another recording")
    # A rank that uses several cards is shown by the fullest one.
    rows = range(len(head["devices"]))
    row = max(rows, key=lambda index: _count_or_none(head["devices"][index]["peak_bytes"]) or 0)
    device = head["devices"][row]
    leaks = device["leaks"]
    nccl = device["nccl"]
    # mypy cannot tell which fields these are.
    numbers: dict[str, Any] = {
        **{name: _count_or_none(process[name]) for name in _PROCESS_NUMBERS},
        **{name: _time_or_none(head[name]) for name in ("first_unix_ns", "last_unix_ns")},
        **{name: _count_or_none(device[name]) for name in _DEVICE_NUMBERS},
    }
    if device["events"] == 0 and numbers["peak_bytes"] == 0:
        numbers["peak_bytes"] = None  # Only its marks are known, such as steps of the optimizer.
    texts: dict[str, Any] = {
        **{name: _text_or_none(process[name]) for name in _PROCESS_TEXTS},
        **{name: _text_or_none(device[name]) for name in ("card", "peak_phase")},
    }
    return RankSummary(
        path=path,
        recording=recording,
        has_file=has_file,
        recording_bytes=_count(head["recording_bytes"]),
        mesh=tuple(map(_dimension, process["mesh"])),
        ending=_ending(head["ending"]),
        is_whole=_flag(head["is_whole"]),
        device=str(device["device"]),
        device_row=row,
        memory_fraction=_share_or_none(device["memory_fraction"]),
        is_exact=_flag(device["is_exact"]),
        **numbers,
        **texts,
        outside_by_kind={
            name: _count(held) for name, held in (device["outside_by_kind"] or {}).items()
        },
        nccl_bytes=None if nccl is None else _count(nccl["bytes"]),
        nccl_provenance=None if nccl is None else _text_or_none(nccl["provenance"]),
        sources={name: _count(one["at_peak"]) for name, one in device["sources"].items()},
        most_by_source={name: _count(one["most"]) for name, one in device["sources"].items()},
        leak_verdict=None if leaks is None else str(leaks["verdict"]),
        leak_bytes_per_step=0 if leaks is None else _count(leaks["bytes_per_step"]),
        leak_lines=() if leaks is None else tuple(map(_leak_line, leaks["lines"])),
        oom_notes=tuple(map(_oom_note, device["oom_reports"])),
        step_count=_count(device["steps"]),
    )


def read_rows(
    lines: Iterable[bytes], device_row: int, names: Sequence[str] | None = None
) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """The lines about a device, each with its content; of the columns only those with these names.

    Any JSON will do. Lines as our writer has them are not parsed to find that they are not wanted.

    Raises:
        ValueError: a line is damaged.
    """
    for line in lines:
        written = _WRITTEN.match(line)
        if written and (
            int(written[1]) != device_row
            or (names is not None and written[2] and written[2].decode() not in names)
        ):
            continue
        if not line or line.isspace():
            continue
        row = json.loads(line, parse_constant=_refuse)
        if row["device"] != device_row:
            continue
        if names is None or "column" not in row or row["column"] in names:
            yield line, row


def read_column(row: dict[str, Any]) -> array[int]:
    """The values of a column.

    Raises:
        TypeError: they are no whole numbers.
        OverflowError: they are too large.
    """
    return array("q", accumulate(row["differences"]))
