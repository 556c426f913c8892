"""What ``gpumemprof run`` prints at the end: files, peaks, what is missing, and the next command.

All of it comes from what the recorder knows. The recordings are not read again: a program that fits
into memory must still fit at its end.
"""

from __future__ import annotations

import contextlib
import os
import shlex
from pathlib import Path

from gpumemprof import _core
from gpumemprof.printable import print_line, printable
from gpumemprof.recorder import kept
from gpumemprof.recorder.active import ActiveRecording
from gpumemprof.recorder.summary import ChildReport, RecordingSummary
from gpumemprof.torch_calls import allocator, readiness

__all__ = [
    "OutputFile",
    "farewell",
    "peaks",
    "print_closing",
    "print_lines",
    "print_message",
    "shown_path",
    "what_is_recorded",
]

_MOST_NAMED = 8
_COLUMNS = 80


def print_message(sentence: str) -> None:
    """Print one line on standard error."""
    _print(f"gpumemprof: {sentence}")


def _print(line: str) -> None:
    print_line(printable(line))


def print_lines(lines: list[str]) -> None:
    """Print lines that continue a message."""
    for line in lines:
        _print(line)


class OutputFile:
    """The file a recording goes to, identified so that it can be recognized at the end."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._whole_path = Path.cwd() / path
        self._identity = self._look()

    def _look(self) -> tuple[int, int] | None:
        try:
            status = self._whole_path.stat()
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def what_happened(self) -> str | None:
        """Why the recording is no longer there; None if it is."""
        now = self._look()
        if now == self._identity:
            return None
        return "deleted" if now is None else "replaced by another file"

    def remove(self) -> None:
        """Delete it, unless it is another by now, or a device or a pipe."""
        if self._look() != self._identity:
            return
        if self._whole_path.is_dir():
            kept.remove_chapters(self._whole_path)
        elif self._whole_path.is_file():
            with contextlib.suppress(OSError):
                self._whole_path.unlink()


def farewell(recording: ActiveRecording) -> bytes:
    """What is printed after the signal that killed the program; empty if another speaks for it."""
    if recording.rank_of_many:
        return b""
    path = shown_path(recording.path)
    where = f"; its recording is {path}"
    if recording.rank_of_many == 0:
        folder = os.path.dirname(path) or "."  # noqa: PTH120
        where += f"; all ranks: gpumemprof ranks {shlex.quote(folder)}"
    return f"{printable(where)}\n".encode("utf-8", "replace")


def peaks(recording: ActiveRecording) -> str:
    """The peak of each device; exact if the recorder or torch's counters know it.

    CPU tensors take exactly what they request. On CUDA, blocks are larger; torch counts them from
    the start of the process unless the program reset its peaks, which shows in its requested bytes.
    """
    found = []
    for device in recording.summary.get("devices", []):
        requested = device["peak_requested_bytes"]
        name = f"{recording.memory}:{device['device']}"
        if recording.memory == "cpu":
            found.append(f"peak {_core.format_bytes(requested)} on {name}")
            continue
        allocated = allocator.peak_allocated(device["device"], requested)
        if allocated is not None:
            found.append(f"peak {_core.format_bytes(allocated)} on {name}")
        else:
            found.append(f"peak {_core.format_bytes(requested)} requested on {name}")
    return ", ".join(found)


def shown_path(path: str) -> str:
    """The path, shortened if it is in or below the folder the command was run in."""
    try:
        relative = os.path.relpath(path)
    except OSError:  # The program may have deleted its folder.
        return path
    return path if relative.startswith(os.pardir) else relative


def _counted(count: int, singular: str, plural: str) -> str:
    return f"{count:,} {singular if count == 1 else plural}"


def what_is_recorded(summary: RecordingSummary) -> str:
    """Allocations and frees; events if these are not distinguished."""
    made, lost = summary.get("made"), summary.get("lost")
    # Events kept by torch's own recorder were not counted by ours.
    if made is None or lost is None or made["allocations"] == 0:
        return _counted(summary["events"], "event", "events")
    allocations = made["allocations"] - lost["allocations"]
    frees = made["frees"] - lost["frees"]
    return (
        f"{_counted(allocations, 'allocation', 'allocations')}, {_counted(frees, 'free', 'frees')}"
    )


def _common_start(paths: list[str]) -> str:
    """The common start of all names, up to a dot."""
    first, last = min(paths), max(paths)
    length = next((i for i, pair in enumerate(zip(first, last)) if pair[0] != pair[1]), len(first))
    return first[:length].rpartition(".")[0]


def _path_of(row: ChildReport) -> str | None:
    """Its recording, if there is one."""
    path = row["path"]
    return path if path is not None and Path(path).exists() else None


def _is_idle(row: ChildReport) -> bool:
    """Whether there was nothing to record."""
    return row.get("events") == 0 and not row.get("problem")


def _child_lines(children: dict[int, ChildReport]) -> tuple[list[str], list[str]]:
    """One line per file the children left, and the files."""
    lines, paths = [], []
    for row in children.values():
        path = _path_of(row)
        if path is None or _is_idle(row):
            continue
        paths.append(shown_path(path))
        if "events" in row:
            lines.append(f"  {paths[-1]}: {row['recorded']}, {row['peaks']}")
        else:
            lines.append(f"  {paths[-1]}: its process has not ended yet, or was killed")
        lines += [f"  {paths[-1]}: {note}" for note in row.get("notes", [])]
    return lines, paths


def print_closing(
    recording: ActiveRecording | None,
    file: OutputFile | None,
    children: dict[int, ChildReport],
    is_asked: bool = True,
) -> None:
    """Print everything at the very end.

    Of the ranks of a job, the first speaks for all: the others say only what went wrong.

    Args:
        recording: of this process, if it is recorded.
        file: where that goes.
        children: what other processes reported.
        is_asked: whether to say that there is nothing to report.
    """
    rank = None if recording is None else recording.rank_of_many
    if recording is not None and file is not None and rank:
        _print_troubles(recording, file, rank)
        _print_unrecorded(children)
        return
    lines, paths = _child_lines(children)
    own = []
    if recording is not None and file is not None:
        is_empty = not recording.summary.get("events") and not recording.summary.get("problem")
        if is_asked or not is_empty:
            for note in recording.notes:
                print_message(note)
        own = _print_own(recording, file, is_asked and not paths)
    _print_unrecorded(children)
    if paths:
        count = _counted(len(paths), "child process was", "child processes were")
        print_message(f"{count} recorded:")
        for line in lines[:_MOST_NAMED]:
            _print(line)
        if len(lines) > _MOST_NAMED:
            _print(f"  … and {len(lines) - _MOST_NAMED} more")
    ranks = [path for path in own if rank is not None]
    ranks += [shown_path(path) for row in children.values() if (path := _rank_path(row))]
    if rank is not None or len(ranks) > 1:
        for folder in sorted({os.path.dirname(path) or "." for path in ranks}):  # noqa: PTH120
            _print(f"Next: gpumemprof ranks {shlex.quote(folder)}")
    elif len(paths) > _MOST_NAMED and (start := _common_start(paths)):
        words = " ".join(map(shlex.quote, [*own, start]))
        _print(f"Next: gpumemprof report {words}.*.gmp")
    elif own or paths:
        words = " ".join(map(shlex.quote, [*own, *paths[:_MOST_NAMED]]))
        _print(f"Next: gpumemprof report {words}")


def _rank_path(row: ChildReport) -> str | None:
    return _path_of(row) if row.get("is_rank") and not _is_idle(row) else None


def _print_troubles(recording: ActiveRecording, file: OutputFile, rank: int) -> None:
    """Of a rank that others speak for: what the first one cannot know."""
    summary = recording.summary
    if not summary:
        return
    changed = file.what_happened()
    if summary["problem"]:
        print_message(f"rank {rank}: {summary['problem']}")
    elif changed is not None:
        print_message(f"rank {rank}: {_lost(file, changed)}")
    elif summary["lost_events"]:
        print_message(f"rank {rank}: {recording.notes[-1]}")
    if _has_nothing(recording):
        file.remove()


def _lost(file: OutputFile, changed: str) -> str:
    return f"{file.path} was {changed} while the program ran: the recording is lost"


def _has_nothing(recording: ActiveRecording) -> bool:
    return recording.summary["events"] == 0 and recording.capture not in ("recorder", "counters")


def _print_unrecorded(children: dict[int, ChildReport]) -> None:
    """Which processes are missing, and why."""
    rows = [row for row in children.values() if _path_of(row) is None and not _is_idle(row)]
    problems = [row["problem"] for row in rows if row.get("problem")]
    if problems:
        count = _counted(len(problems), "child process was", "child processes were")
        print_message(f"{count} not recorded:")
        for problem in sorted(set(problems))[:_MOST_NAMED]:
            _print(f"  {problem}")
    left_out = sum(1 for row in rows if row["path"] is None and not row.get("problem"))
    if left_out:
        count = _counted(left_out, "more child process was", "more child processes were")
        print_message(f"{count} not recorded: too many for one folder")


def _print_own(recording: ActiveRecording, file: OutputFile, is_asked: bool) -> list[str]:
    """Print the line of the program's own process; returns its file if there is one to look at."""
    if not recording.summary:
        return []
    changed = file.what_happened()
    if changed is not None:
        if not recording.summary["problem"]:  # otherwise it is among the notes
            print_message(_lost(file, changed))
        return []
    if recording.capture == "counters":
        print_message(f"events could not be recorded; torch's own counters are in {file.path}")
        return [file.path]
    if _has_nothing(recording):
        file.remove()
        if is_asked and not recording.summary["problem"]:  # which is among the notes
            print_message(_why_nothing(recording))
        return []
    _print_figures(recording, file.path)
    return [file.path]


def _print_figures(recording: ActiveRecording, path: str) -> None:
    counts = what_is_recorded(recording.summary)
    how = "" if recording.capture == "native" else f", capture: {recording.capture}"
    size = f"({_core.format_bytes(recording.summary['size_bytes'])}{how})"
    where = f"{counts} in {path} {size}"
    peak = peaks(recording)
    line = f"{where}; {peak}" if peak else where
    most = _COLUMNS - len("gpumemprof: ")
    if len(line) <= most:
        print_message(line)
        return
    if len(where) <= most:
        print_message(where)
    else:
        print_message(f"{counts} {size}")
        _print(f"  in {path}")
    if peak:
        _print(f"  {peak}")


def _why_nothing(recording: ActiveRecording) -> str:
    if not readiness.is_imported():
        return "the program never imported torch, so there is nothing to report"
    hint = "; record CPU tensors with: gpumemprof run --cpu" if recording.memory == "cuda" else ""
    return f"no {recording.memory} memory was allocated, so there is nothing to report{hint}"
