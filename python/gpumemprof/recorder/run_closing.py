"""What ``gpumemprof run`` prints at the end: files, peaks, what is missing, and the next command.

All of it comes from what the recorder knows. The recordings are not read again: a program that fits
into memory must still fit at its end.
"""

from __future__ import annotations

import contextlib
import json
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
    "peaks",
    "print_closing",
    "print_lines",
    "print_message",
    "read_children",
    "shown_path",
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


def read_children(registry: str) -> dict[int, ChildReport]:
    """What each child process reported last, by its number."""
    children: dict[int, ChildReport] = {}
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        for line in Path(registry).read_bytes().splitlines() if registry else []:
            row = json.loads(line)
            children[row["pid"]] = row
    return children


def shown_path(path: str) -> str:
    """The path, shortened if it is in or below the folder the command was run in."""
    relative = os.path.relpath(path)
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


def _child_lines(children: dict[int, ChildReport]) -> tuple[list[str], list[str]]:
    """One line per file the children left, and the files."""
    lines, paths = [], []
    for row in children.values():
        path = row["path"]
        if path is None or row.get("events") == 0 or not Path(path).exists():
            continue
        paths.append(shown_path(path))
        if "events" in row:
            lines.append(f"  {paths[-1]}: {row['recorded']}, {row['peaks']}")
        else:
            lines.append(f"  {paths[-1]}: its process has not ended yet, or was killed")
        lines += [f"  {paths[-1]}: {note}" for note in row.get("notes", [])]
    return lines, paths


def print_closing(
    recording: ActiveRecording, file: OutputFile, children: dict[int, ChildReport]
) -> None:
    """Print everything at the very end."""
    for note in recording.notes:
        print_message(note)
    lines, paths = _child_lines(children)
    own = _print_own(recording, file, bool(paths))
    if paths:
        count = _counted(len(paths), "child process was", "child processes were")
        print_message(f"{count} recorded:")
        for line in lines[:_MOST_NAMED]:
            _print(line)
        if len(lines) > _MOST_NAMED:
            _print(f"  … and {len(lines) - _MOST_NAMED} more")
    left_out = sum(1 for row in children.values() if row["path"] is None)
    if left_out:
        count = _counted(left_out, "more child process was", "more child processes were")
        print_message(f"{count} not recorded: too many for one folder")
    if len(paths) > _MOST_NAMED:
        start = _common_start(paths)
        words = " ".join(map(shlex.quote, [*own, start]))
        _print(f"Next: gpumemprof report {words}.*.gmp")
    elif own or paths:
        _print(f"Next: gpumemprof report {' '.join(map(shlex.quote, [*own, *paths]))}")


def _print_own(recording: ActiveRecording, file: OutputFile, has_children: bool) -> list[str]:
    """Print the line of the program's own process; returns its file if there is one to look at."""
    if not recording.summary:
        return []
    changed = file.what_happened()
    if changed is not None:
        if not recording.summary["problem"]:  # otherwise it is among the notes
            print_message(f"{file.path} was {changed} while the program ran: the recording is lost")
        return []
    if recording.capture == "counters":
        print_message(f"events could not be recorded; torch's own counters are in {file.path}")
        return [file.path]
    if recording.summary["events"] == 0 and recording.capture != "recorder":
        file.remove()
        if not has_children:
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
    if recording.summary.get("problem"):
        return "no part of the recording could be written, so there is nothing to report"
    hint = "; record CPU tensors with: gpumemprof run --cpu" if recording.memory == "cuda" else ""
    return f"no {recording.memory} memory was allocated, so there is nothing to report{hint}"
