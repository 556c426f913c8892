"""Puts this process under a shelter, before it becomes the predicted program."""

from __future__ import annotations

import os
from typing import Any

from gpumemprof.estimate.shelter import kernel, landlock
from gpumemprof.estimate.shelter.shelter import LANDLOCK, OVERLAY, REDIRECT

__all__ = ["enter"]

_DEVICES = ["/dev", "/proc"]


def enter(order: dict[str, Any]) -> None:
    """For good; `order` is that of the `Shelter`. The process has one thread."""
    if order["kind"] == OVERLAY:
        _enter_namespaces(order["keeper"], order["root"])
    elif order["kind"] == REDIRECT:
        _preload(order)
        if order["is_guarded"]:
            landlock.restrict([*order["real"], order["scratch"], *_DEVICES])
    elif order["kind"] == LANDLOCK:
        # Programs fail without a folder for temporary files.
        os.environ["TMPDIR"] = order["scratch"]
        landlock.restrict([*order["real"], order["scratch"], *_DEVICES])


def _enter_namespaces(keeper: int, root: str) -> None:
    folder = os.getcwd()
    if os.stat(f"/proc/{keeper}/ns/user").st_ino != os.stat("/proc/self/ns/user").st_ino:
        kernel.set_namespace(f"/proc/{keeper}/ns/user", kernel.CLONE_NEWUSER)
    kernel.set_namespace(f"/proc/{keeper}/ns/mnt", kernel.CLONE_NEWNS)
    os.chroot(root)
    os.chdir(folder)


def _preload(order: dict[str, Any]) -> None:
    libraries = [order["library"], *os.environ.get("LD_PRELOAD", "").split(":")]
    os.environ["LD_PRELOAD"] = ":".join(filter(None, libraries))
    os.environ["GPUMEMPROF_REDIRECT"] = order["scratch"]
    os.environ["GPUMEMPROF_REDIRECT_REAL"] = ":".join(order["real"])
    if order["is_guarded"]:
        os.environ["GPUMEMPROF_REDIRECT_LETS_STATIC"] = "1"
