"""What the program would have done to the user's files, and what left its process for real."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from gpumemprof.estimate.command.page import paragraph
from gpumemprof.estimate.command.program import Run
from gpumemprof.estimate.command.units import size
from gpumemprof.estimate.shelter.changes import Changes
from gpumemprof.estimate.shelter.shelter import LANDLOCK, NONE

__all__ = ["files_json", "files_text"]

_MAX_ROWS = 8


def files_text(run: Run) -> list[str]:
    """For people; empty if it left everything as it was, and nothing left its process."""
    lines = _changes_text(run.changes)
    if run.shelter == NONE:
        lines = ["What the program wrote, it wrote for real, as --let-write says."]
    elif run.shelter == LANDLOCK:
        lines = paragraph(
            "The program could not write: this machine has neither overlays for users, nor the "
            "library of gpumemprof that redirects writes."
        )
    if run.notes.started:
        names = ", ".join(run.notes.started[:_MAX_ROWS])
        lines += paragraph(f"It started for real: {names}.")
    if run.notes.sent:
        names = ", ".join(run.notes.sent[:_MAX_ROWS])
        lines += paragraph(f"It spoke for real with: {names}.")
    return ["", *lines] if lines else []


def files_json(run: Run) -> dict[str, Any]:
    """For scripts."""
    return {
        "shelter": run.shelter,
        "files": None if run.changes is None else run.changes.to_json(),
        "sent_to": run.notes.sent,
        "started": run.notes.started,
    }


def _changes_text(changes: Changes | None) -> list[str]:
    if changes is None:
        return []
    rows = [("change", _shown(path), "") for path in changes.changed if not _is_cache(path)]
    rows += [("remove", _shown(path), "") for path in changes.removed if not _is_cache(path)]
    rows += [
        ("write", _shown(entry.path), f"{_files(entry.files)}{size(entry.size_bytes)}")
        for entry in changes.created
        if not _is_cache(entry.path)
    ]
    if not rows:
        return []
    lines = ["No file was changed. Without estimate, the program would"]
    for what, path, note in rows[:_MAX_ROWS]:
        lines.append(f"  {what} {path}" + (f" ({note})" if note else ""))
    if len(rows) > _MAX_ROWS:
        lines.append(f"  … and {len(rows) - _MAX_ROWS} more; --json lists all")
    return lines


def _files(count: int) -> str:
    return "" if count == 1 else f"{count:,} files, "


def _shown(path: str) -> str:
    """Relative to the current folder where it lies in it."""
    try:
        return str(Path(path).relative_to(Path.cwd()))
    except (ValueError, OSError):
        return path


def _is_cache(path: str) -> bool:
    """Nobody misses it."""
    caches = [tempfile.gettempdir(), "/var/tmp", "/dev", str(Path("~/.cache").expanduser())]
    is_below = any(f"{path}/".startswith(f"{each}/") for each in caches)
    is_in_project = path.startswith(f"{Path.cwd()}/")
    return (is_below and not is_in_project) or "__pycache__" in Path(path).parts
