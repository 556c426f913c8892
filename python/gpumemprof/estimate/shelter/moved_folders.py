"""A folder that an overlay shows cannot be renamed without privileges: it is copied instead."""

from __future__ import annotations

import errno
import os
import shutil
from typing import Any, Callable

from gpumemprof.estimate.patches.patcher import Patcher

__all__ = ["install"]


def install(patcher: Patcher) -> None:
    for name in ("rename", "replace"):
        patcher.set(os, name, _copying_folders(getattr(os, name)))


def _copying_folders(real: Callable[..., None]) -> Callable[..., None]:
    def rename(source: Any, target: Any, **folders: Any) -> None:
        try:
            real(source, target, **folders)
        except OSError as error:
            if error.errno != errno.EXDEV or folders or not os.path.isdir(source):
                raise
            if os.path.isdir(target):
                os.rmdir(target)  # It may be empty, as for the real function.
            shutil.copytree(source, target, symlinks=True)
            shutil.rmtree(source)

    return rename
