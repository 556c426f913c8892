"""The shelter of one predicted program, for the command that predicts it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import gpumemprof
from gpumemprof.errors import EnvironmentProblem
from gpumemprof.estimate.shelter import landlock
from gpumemprof.estimate.shelter.changes import Changes, redirected_changes

__all__ = ["LANDLOCK", "LAYERS_VARIABLE", "NONE", "OVERLAY", "REDIRECT", "Shelter", "open_shelter"]

OVERLAY, REDIRECT, LANDLOCK, NONE = "overlay", "redirect", "landlock", "none"

LAYERS_VARIABLE = "GPUMEMPROF_SHELTER"
"""Which layers may be used, such as ``redirect,landlock``; all if it is not set."""

_KEEPER = Path(__file__).with_name("keeper.py")
_LIBRARY = Path(gpumemprof.__file__).parent / "data" / "_redirect.so"
_SECOND_SCRATCH = "/var/tmp"


class Shelter(Protocol):
    """Keeps what the program writes from the user's files."""

    kind: str
    """One of the layers, or NONE if the user wants real writes."""
    has_scratch: bool
    """Whether the program can write, and sees what it wrote."""

    def order(self) -> dict[str, Any]:
        """For `enter.enter` in the program's process."""

    def changes(self) -> Changes | None:
        """What was written and removed so far; None if that is unknown."""

    def close(self) -> None:
        """Nothing is left of what was written."""


def open_shelter(real: Sequence[str]) -> Shelter:
    """The best that this machine allows; what is written below `real` is not held back.

    Raises:
        EnvironmentProblem: there is none.
    """
    real = [os.path.realpath(each) for each in real]
    if "/" in real:
        return _NoShelter()
    wanted = os.environ.get(LAYERS_VARIABLE, f"{OVERLAY},{REDIRECT},{LANDLOCK}").split(",")
    if OVERLAY in wanted:
        with contextlib.suppress(OSError, ValueError):
            return _Overlay(real)
    guard = landlock.version() if LANDLOCK in wanted else 0
    if REDIRECT in wanted and _LIBRARY.exists():
        return _Redirect(real, guard > 0)
    if guard >= landlock.REFUSES_TRUNCATING:
        return _Landlock(real)
    raise EnvironmentProblem(
        "this machine offers no way to keep what the program writes from your files "
        "(namespaces, preloaded libraries, Landlock)",
        "environment",
        "",
        "predict it in a copy of its folder, with --let-write / for real writes",
    )


def _scratch_folder() -> str:
    return tempfile.mkdtemp(prefix="gpumemprof-shelter-")


def _remove(folder: str) -> None:
    """All of it, with what the program made unreadable."""
    for path, names, _ in os.walk(folder):
        for name in names:
            each = os.path.join(path, name)
            with contextlib.suppress(OSError):
                if not os.path.islink(each):
                    os.chmod(each, stat.S_IRWXU)
    shutil.rmtree(folder, ignore_errors=True)


class _Overlay:
    kind = OVERLAY
    has_scratch = True

    def __init__(self, real: Sequence[str]) -> None:
        self._scratch = [_scratch_folder()]
        self._root = os.path.join(self._scratch[0], "root")
        with contextlib.suppress(OSError):
            self._scratch.append(
                tempfile.mkdtemp(prefix="gpumemprof-shelter-", dir=_SECOND_SCRATCH)
            )
        order = {
            "root": [self._root],
            "scratch": self._scratch,
            "real": list(real),
            "writable": _likely_written(),
        }
        self._keeper = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_KEEPER), json.dumps(order)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            # Ctrl-C is for the program; this one ends with us.
            start_new_session=True,
        )
        try:
            self._answer()
        except BaseException:
            self.close()
            raise

    def _answer(self) -> Any:
        assert self._keeper.stdout is not None
        return json.loads(self._keeper.stdout.readline())

    def order(self) -> dict[str, Any]:
        return {"kind": self.kind, "keeper": self._keeper.pid, "root": self._root}

    def changes(self) -> Changes | None:
        try:
            assert self._keeper.stdin is not None
            self._keeper.stdin.write(b"\n")
            self._keeper.stdin.flush()
            return Changes.read(self._answer())
        except (OSError, ValueError):
            return None

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._keeper.communicate()
        for folder in self._scratch:
            _remove(folder)


def _likely_written() -> list[str]:
    found = [os.path.realpath(os.path.expanduser("~"))]
    with contextlib.suppress(OSError):
        found.append(os.getcwd())
    return [each for each in found if os.path.isdir(each) and os.access(each, os.W_OK)]


class _Redirect:
    kind = REDIRECT
    has_scratch = True

    def __init__(self, real: Sequence[str], is_guarded: bool) -> None:
        self._real = list(real)
        self._is_guarded = is_guarded
        self._scratch = _scratch_folder()

    def order(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "scratch": self._scratch,
            "real": self._real,
            "library": str(_LIBRARY),
            "is_guarded": self._is_guarded,
        }

    def changes(self) -> Changes | None:
        return redirected_changes(self._scratch)

    def close(self) -> None:
        _remove(self._scratch)


class _Landlock:
    kind = LANDLOCK
    has_scratch = False

    def __init__(self, real: Sequence[str]) -> None:
        self._real = list(real)
        self._scratch = _scratch_folder()

    def order(self) -> dict[str, Any]:
        return {"kind": self.kind, "scratch": self._scratch, "real": self._real}

    def changes(self) -> Changes | None:
        return Changes()  # It could write nothing.

    def close(self) -> None:
        _remove(self._scratch)


class _NoShelter:
    kind = NONE
    has_scratch = False

    def order(self) -> dict[str, Any]:
        return {"kind": self.kind}

    def changes(self) -> Changes | None:
        return None

    def close(self) -> None:
        pass
