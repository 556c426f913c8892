"""How the program ends: by itself, or by an exception, and which line raised it."""

from __future__ import annotations

import functools
import os
import sys
import time
from pathlib import Path
from types import TracebackType

__all__ = ["EXCEPTION", "failure_facts", "main_package", "reason_at_exit"]

EXCEPTION = "exception: "
# What gloo, NCCL and torch's store raise when another rank is gone.
_PEER_TYPES = ("DistBackendError", "DistNetworkError", "DistStoreError")
_PEER_SIGNS = (
    "gloo/transport",
    "Connection closed by peer",
    "Connection reset by peer",
    "Broken pipe",
    "ncclRemoteError",
    "ncclSystemError",
    "NCCL communicator was aborted",
    "Socket Timeout",
)
# The folders of packages, which are not the program.
_LIBRARIES = ("site-packages", "dist-packages")


def reason_at_exit() -> str:
    """Call when Python exits: ``exit``, or ``exception: ValueError``."""
    # Python notes here an exception that nobody caught.
    kind = getattr(sys, "last_type", None)
    return "exit" if kind is None or _is_interactive() else f"{EXCEPTION}{kind.__name__}"


def _is_interactive() -> bool:
    """Whether an exception does not end the program: it may have been long ago."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(sys, "ps1") or shell is not None


def failure_facts() -> dict[str, str]:
    """The exception that nobody caught, and the line of the program that raised it.

    Its message is left out: it may quote data.
    """
    error = getattr(sys, "last_value", None)
    if error is None:
        return {}
    facts = {"failure_type": type(error).__name__, "failure_unix_ns": str(time.time_ns())}
    place = _place(getattr(sys, "last_traceback", None) or error.__traceback__)
    if place:
        facts["failure_place"] = place
    if _is_of_peer(error):
        facts["failure_of_peer"] = "yes"
    return facts


def _is_of_peer(error: BaseException) -> bool:
    """Whether the exception, or its cause, is that another rank was gone or did not answer."""
    cause: BaseException | None = error
    for _ in range(8):
        if cause is None:
            return False
        text = str(cause)
        if type(cause).__name__ in _PEER_TYPES or any(sign in text for sign in _PEER_SIGNS):
            return True
        cause = cause.__cause__ or cause.__context__
    return False


def _place(traceback: TracebackType | None) -> str:
    """The innermost line outside packages; the innermost of all if there is none."""
    innermost = own = None
    while traceback is not None:  # There may be millions of them.
        innermost = traceback
        if not _is_library(traceback.tb_frame.f_code.co_filename):
            own = traceback
        traceback = traceback.tb_next
    found = own or innermost
    if found is None:
        return ""
    code = found.tb_frame.f_code
    return f"{_shown(code.co_filename)}:{found.tb_lineno} {code.co_name}"


@functools.lru_cache(maxsize=1024)
def _is_library(file: str) -> bool:
    parts = Path(file).parts
    is_package = any(name in parts for name in _LIBRARIES)
    return is_package or file.startswith(
        ("<frozen", f"{sys.prefix}/lib/", f"{sys.base_prefix}/lib/")
    )


def main_package() -> str:
    """The package of a program that was started as ``python -m pkg.train``; empty if none was."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    parent = getattr(spec, "parent", None)
    return parent if isinstance(parent, str) else ""


def _shown(file: str) -> str:
    """Relative to the folder of the main script, or of its package, as reports show it."""
    # The module's own __file__ is gone by the time Python exits.
    main = getattr(sys.modules.get("__main__"), "__file__", None) or sys.argv[0]
    # Links stay as they are: reports show the paths of frames.
    folder = os.path.dirname(os.path.abspath(main))  # noqa: PTH100, PTH120
    inside = os.sep + main_package().replace(".", os.sep)
    if len(inside) > 1 and folder.endswith(inside):
        folder = folder[: -len(inside)]
    whole = os.path.abspath(file)  # noqa: PTH100
    return os.path.relpath(whole, folder) if whole.startswith(f"{folder}{os.sep}") else file
