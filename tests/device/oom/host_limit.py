"""Runs a program in a control group with little main memory, so that the kernel ends it."""

from __future__ import annotations

import atexit
import contextlib
import os
import subprocess
import sys
from pathlib import Path

GIB = 1 << 30
ROOM = 8 * GIB if Path("/dev/nvidiactl").exists() else 2 * GIB
ROOT = Path("/sys/fs/cgroup")
LIMITS = {"memory.max": ROOM, "memory.swap.max": 0, "memory.limit_in_bytes": ROOM}
_made: list[Path] = []


def _group() -> Path | None:
    """Made once; None if it cannot be made, or would not limit anything."""
    if _made:
        return _made[0]
    is_second_version = (ROOT / "cgroup.controllers").exists()
    group = (ROOT if is_second_version else ROOT / "memory") / f"gpumemprof-{os.getpid()}"
    with contextlib.suppress(OSError):
        if is_second_version:
            (ROOT / "cgroup.subtree_control").write_text("+memory")
        group.mkdir()
        _made.append(group)
        atexit.register(_remove, group)
        for name, bound in LIMITS.items():
            if (group / name).exists():
                (group / name).write_text(str(bound))
        if any((group / name).exists() for name in ("memory.max", "memory.limit_in_bytes")):
            return group
    return None


def _remove(group: Path) -> None:
    with contextlib.suppress(OSError):
        group.rmdir()


def is_possible() -> bool:
    return _group() is not None


def limited(words: list[str]) -> list[str]:
    """The command, in the group."""
    enter = f'echo $$ > "{_group()}/cgroup.procs" && exec "$@"'
    return ["sh", "-c", enter, "sh", *words]


def problems(recording: Path) -> list[str]:
    """What the recording of the program that was killed does not say."""
    done = subprocess.run(
        [sys.executable, "-m", "gpumemprof", "report", str(recording)],
        capture_output=True,
        text=True,
    )
    text = " ".join(done.stdout.split())
    return [] if "kernel may have ended it" in text else [f"the report begins: {text[:600]}"]
