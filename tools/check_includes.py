"""Checks what each room (folder of src/) includes, foreign headers, folder names and header guards.

Every include in include/, src/ and python/bindings must be allowed by ROOMS, FOLDERS or FOREIGN
below. A debt is a known include that breaks the rules: it is listed in DEBTS with the reason, and a
debt that is no longer used is reported too.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

# A room may include the rooms named here. "room/pattern" allows only the headers that match.
# report, cli and bindings use only the report structs of analysis, which share a header with their
# function.
ROOMS: dict[str, list[str]] = {
    "base": [],
    "event": ["base"],
    "trace": ["base", "event"],
    "symbols": ["base", "event"],
    "ingest": ["base", "event"],
    "sim": ["base", "event"],
    "store": ["base", "event"],
    "capture": [
        *("base", "event", r"trace/writer\.h"),
        # What is live at the start of a chapter is what its readers would find by playing it.
        *(r"trace/chapters/(chapter_folder|summary)\.h", r"store/store\.h"),
        r"replay/(history_start|lifetime_listener|player|poolless)\.h",
    ],
    "estimate": ["base", "event", "sim", r"capture/capture\.h"],
    "replay": ["base", "event", "store"],
    "analysis": ["base", "event", "store", "replay", "sim"],
    "follow": [
        *("base", "event", r"trace/follower\.h", r"symbols/resolving_sink\.h"),
        *("store", "replay", "analysis"),
    ],
    "windows": ["base", "event", "store", "replay", "analysis"],
    "index": ["base", "event", "trace", "store", "replay", "analysis", "windows"],
    "report": ["base", "event", "store", "analysis", r"follow/live_report\.h"],
    "session": [
        *("base", "event", "trace", "symbols", "ingest", "estimate", "sim", "store"),
        *("capture", "replay", "analysis", "windows", "index", "report"),
    ],
    "cli": ["base", "event", "session", "report", "analysis"],
    # Loaded into programs of others, where nothing else of ours is.
    "redirect": [],
    # The public headers, which show nothing of what is inside.
    "gpumemprof": [],
    "api": [
        *("base", "event", "session", "report", "analysis", "gpumemprof"),
        r"capture/(capture|libtorch/(driver_cards|first_use|libtorch))\.h",
        r"ingest/torch_snapshot\.h",
    ],
    "bindings": [
        *("base", "event", "session", "report", "cli", "analysis"),
        *("estimate", "follow"),
        r"capture/(capture|counting|hooks/tensor_places)\.h",
    ],
}

# The same inside a room: which other folders of it each of its folders may include, and which of
# the headers on top. The files on top may include all of them.
FOLDERS: dict[str, list[str]] = {
    "session/excerpt": [r"session/(file_info|formats|recording)\.h"],
    "session/tables": [r"session/(formats|recording)\.h", r"session/excerpt/(long_file|passes)\.h"],
    "session/exports": ["session/tables", r"session/formats\.h"],
    "session/html": ["session/excerpt", "session/long_view", r"session/(device_view|view)\.h"],
    "session/advice": ["session/excerpt", "session/long_view", r"session/recording\.h"],
    "session/long_view": ["session/excerpt", r"session/(device_view|formats|recording)\.h"],
    "capture/native": [r"capture/foreign_memory\.h"],
    "capture/stacks": [
        "capture/native",
        r"capture/(device_slot|foreign_memory|record|shown_files)\.h",
    ],
    "capture/ledger": [r"capture/(device_slot|own_thread|ticks)\.h"],
    "capture/output": ["capture/stacks", r"capture/(capture|device_slot|record)\.h"],
    "capture/output/chapters": [
        *("capture/output", "capture/stacks"),
        r"capture/(capture|device_slot|record)\.h",
    ],
    "capture/stream": [
        *("capture/stacks", "capture/native", "capture/ledger", "capture/output"),
        r"capture/(capture|device_slot|own_thread|record|ticks)\.h",
    ],
    "capture/libtorch": [r"capture/capture\.h", r"capture/hooks/(call_table|cuda_report)\.h"],
    "capture/hooks": [
        *("capture/stacks", "capture/native", "capture/ledger", "capture/output"),
        "capture/stream",
        r"capture/(capture|device_slot|foreign_memory|record|ticks)\.h",
    ],
}

# Third-party and system headers, and the rooms that may include them. All may include standard C++.
FOREIGN: list[tuple[str, set[str]]] = [
    (r"fmt/core\.h", {"base", "report", "cli"}),
    # The functions that the other header declares; see src/base/formatting.cpp.
    (r"fmt/format\.h", {"base"}),
    (r"zlib\.h", {"ingest", "report"}),
    (r"zstd(_errors)?\.h", {"trace"}),
    (r"dlfcn\.h", {"capture", "redirect", "symbols"}),
    (r"link\.h", {"capture"}),
    (r"(elf|cxxabi)\.h", {"redirect", "symbols"}),
    (r"pthread\.h|sched\.h|sys/syscall\.h", {"capture", "redirect"}),
    (
        r"(fcntl|unistd)\.h|sys/(file|mman|resource|stat|types|uio)\.h",
        {"api", "base", "capture", "cli", "redirect"},
    ),
    # In C, the standard library has headers with a suffix; libtorch's are for those who have it.
    (r"(stddef|stdint)\.h|torch/(nn|optim|torch|version)\.h", {"gpumemprof"}),
    (r"sys/ioctl\.h|termios\.h|signal\.h", {"cli", "redirect"}),
    # What the functions of the C library that it replaces are declared with.
    (r"(alloca|dirent|ftw|glob|semaphore|stdio|utime)\.h|linux/stat\.h", {"redirect"}),
    (r"sys/(statvfs|sysmacros|time|un)\.h", {"redirect"}),
    (r"sys/statfs\.h", {"base", "redirect"}),
    (r"nlohmann/.*", {"ingest", "report"}),
    (r"protozero/.*", {"report"}),
    (r"CLI/.*", {"cli"}),
    (r"spawn\.h|sys/wait\.h", {"capture", "cli", "redirect"}),
    (r"(arpa/inet|netinet/(in|tcp))\.h|sys/socket\.h", {"cli", "redirect"}),
    (r"poll\.h", {"capture", "cli", "redirect"}),
    (r"nanobind/.*|Python\.h", {"bindings"}),
]


class Debt(NamedTuple):
    room: str
    header: str  # a pattern
    reason: str


ERROR_SENTENCES = "error sentences are formatted where they arise"
DEBTS: list[Debt] = [
    Debt("ingest", r"fmt/core\.h", ERROR_SENTENCES),
]

# Only the C++ standard library has headers with no suffix.
STANDARD = re.compile(r"[a-z_]+")

# Catch-all folders: code that seems to fit nowhere needs a room of its own.
HOMELESS = {"util", "utils", "common", "helpers", "misc", "core"}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


class Include(NamedTuple):
    line: int
    header: str
    quoted: bool


def parse_includes(text: str) -> Iterator[Include]:
    for number, line in enumerate(text.splitlines(), start=1):
        if match := INCLUDE.match(line):
            yield Include(number, match[2], match[1] == '"')


def room_of(path: Path) -> str | None:
    """The room of a path relative to the root: src/<room>/..., include/..., or python/bindings."""
    parts = path.parts
    if parts[:2] == ("python", "bindings"):
        return "bindings"
    return parts[1] if parts[0] in ("src", "include") and len(parts) > 2 else None


def may_include_room(room: str, header: str) -> bool:
    target = header.split("/")[0]
    if target == room:
        return True
    return any(
        re.fullmatch(rule, header) if "/" in rule else rule == target for rule in ROOMS[room]
    )


def folder_of(path: Path) -> str:
    """The folder of a file of ours below src/, two levels deep: "capture/hooks"."""
    return "/".join(path.parts[1:-1][:2])


def may_include_folder(folder: str, header: str) -> bool:
    target = "/".join(header.split("/")[:-1][:2])
    if folder not in FOLDERS or target == folder or target.split("/")[0] != folder.split("/")[0]:
        return True
    return any(re.fullmatch(rule, header) or rule == target for rule in FOLDERS[folder])


def judge(room: str, folder: str, include: Include) -> str | None:
    """Why a file of this room and folder may not include this; None if it may."""
    header = include.header
    if not may_include_folder(folder, header):
        return f"{folder} may not include {header}"
    if header.split("/")[0] in ROOMS and include.quoted:
        return None if may_include_room(room, header) else f"{room} may not include {header}"
    if room == "bindings" and include.quoted and "/" not in header:
        return None  # python/bindings is one flat folder and not an include root
    if include.quoted:
        return f'"{header}" is no header of ours; an include reads "room/file.h"'
    if STANDARD.fullmatch(header):
        return None
    for pattern, rooms in FOREIGN:
        if re.fullmatch(pattern, header):
            return None if room in rooms else f"<{header}> belongs to {', '.join(sorted(rooms))}"
    return f"<{header}> is in no list of foreign headers"


def check_file(path: Path, text: str, used_debts: set[Debt]) -> Iterator[str]:
    room = room_of(path)
    if room is None or room not in ROOMS:
        yield f"{path}:1: this file is in no room of the design"
        return
    # Headers for C have the guard that every compiler knows.
    is_guarded = "#pragma once" in text or (room == "gpumemprof" and "#ifndef GPUMEMPROF_" in text)
    if path.suffix == ".h" and not is_guarded:
        yield f"{path}:1: a header needs #pragma once"
    for include in parse_includes(text):
        problem = judge(room, folder_of(path), include)
        if problem is None:
            continue
        debts = [d for d in DEBTS if d.room == room and re.fullmatch(d.header, include.header)]
        used_debts.update(debts)
        if not debts:
            yield f"{path}:{include.line}: {problem}"


def check_tree(root: Path) -> Iterator[str]:
    used_debts: set[Debt] = set()
    for top in ("include", "src", "python/bindings"):
        for path in sorted((root / top).rglob("*")):
            relative = path.relative_to(root)
            if path.is_dir() and path.name in HOMELESS:
                yield f"{relative}: no folder is called {path.name}; name the room that is missing"
            elif path.suffix in {".h", ".cpp"}:
                yield from check_file(relative, path.read_text(encoding="utf-8"), used_debts)
    for debt in DEBTS:
        # A room that is not written yet cannot have paid its debt.
        if debt not in used_debts and any((root / "src" / debt.room).rglob("*.cpp")):
            yield f"{debt.room} no longer includes {debt.header}; drop the debt from DEBTS"


def main(root: Path) -> int:
    problems = list(check_tree(root))
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(Path(__file__).resolve().parent.parent))
