"""All files of this machine, seen through overlays: writing changes only the scratch folder.

The new root is an empty file system in memory. Each folder of the old root is mounted in it as an
overlay, with all file systems below it; what has no files of a user, such as /proc, is mounted as
it is. What cannot be an overlay can only be read.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gpumemprof.estimate.shelter import kernel
from gpumemprof.estimate.shelter.mounts import SPECIAL_KINDS, read_mounts

__all__ = ["Layer", "View"]

_REAL = ("/proc", "/sys", "/dev")
_SHARED_MEMORY = "/dev/shm"
# A folder with mounts in it, whose entries are mounted one by one, may have so many.
_MAX_ENTRIES = 1000


@dataclass(frozen=True)
class Layer:
    """What was written below one folder."""

    path: str
    """The folder, as the program knows it."""
    upper: int
    """A descriptor of the folder that holds what was written."""


def _entries(folder: str) -> list[str]:
    """The first of them, as far as the user can look into it."""
    try:
        with os.scandir(folder) as found:
            return [entry.path for entry in itertools.islice(found, _MAX_ENTRIES)]
    except OSError:
        return []


class View:
    """Builds the new root. In a mount namespace of its own, with the right to mount."""

    def __init__(self, root: str, scratch: Sequence[str], is_privileged: bool) -> None:
        """`root` is to be made; `scratch` are folders on disks, in the order of preference.

        `is_privileged`: with the rights of the machine's root, not of a namespace of users.
        """
        self._root = root
        self._scratch = list(scratch)
        self._is_privileged = is_privileged
        self._mounts = read_mounts()
        self._count = 0
        self.layers: list[Layer] = []
        self.read_only: list[str] = []
        """Folders that could not be overlays."""

    def build(self, real: Sequence[str], writable: Sequence[str]) -> None:
        """`real` are folders that stay as they are.

        `writable` are folders in which the program surely writes. A folder of another owner cannot
        be copied into a scratch folder, so each of these gets an overlay of its own.

        Raises:
            OSError: the files there cannot be copied either.
        """
        if any(self._is_foreign(each) for path in writable for each in _entries(path)):
            raise PermissionError("files of another owner or group")
        os.mkdir(self._root)
        kernel.mount("tmpfs", self._root, "tmpfs", 0, "mode=755")
        for name in sorted(os.listdir("/")):
            self._place(f"/{name}")
        if os.path.isdir(_SHARED_MEMORY):
            self._overlay(_SHARED_MEMORY, is_in_memory=True)
        for path in writable:
            if self._is_foreign(path) and path not in {each.path for each in self.layers}:
                self._overlay(path)
                self._place_mounts_below(path)
        for path in real:
            kernel.mount(path, self._root + path, "", kernel.MS_BIND)

    def _place(self, path: str) -> None:
        """Make the same entry in the new root."""
        target = self._root + path
        try:
            mode = os.lstat(path).st_mode
            if stat.S_ISLNK(mode):
                if not os.path.lexists(target):
                    os.symlink(os.readlink(path), target)
            elif stat.S_ISDIR(mode):
                with contextlib.suppress(FileExistsError):
                    os.mkdir(target)
                self._place_folder(path, mode)
            else:
                if not os.path.lexists(target):
                    Path(target).touch()
                self._show(path)
                kernel.make_read_only(target)
        except OSError:  # a folder that this user cannot look into, or a mount without its server
            return

    def _place_folder(self, path: str, mode: int) -> None:
        if path in _REAL or self._mounts.get(path) in SPECIAL_KINDS:
            self._show(path)
        elif self._overlay(path):
            self._place_mounts_below(path)
        elif self._has_mounts_below(path) and len(os.listdir(path)) <= _MAX_ENTRIES:
            # The kernel gives no overlay of it to a user, as that would uncover what they hide.
            for name in os.listdir(path):
                self._place(os.path.join(path, name))
            os.chmod(self._root + path, stat.S_IMODE(mode))
        else:
            self._show(path)
            kernel.make_read_only(self._root + path)
            self.read_only.append(path)

    def _show(self, path: str) -> None:
        kernel.mount(path, self._root + path, "", kernel.MS_BIND | kernel.MS_REC)

    def _has_mounts_below(self, path: str) -> bool:
        return any(each.startswith(path + "/") for each in self._mounts)

    def _place_mounts_below(self, path: str) -> None:
        placed: list[str] = []
        for each in self._mounts:
            is_below = each.startswith(path + "/")
            if is_below and not any(each.startswith(other + "/") for other in placed):
                placed.append(each)
                self._place(each)

    def _is_foreign(self, path: str) -> bool:
        """Whether the user can write it, but not make a copy of the same owner and group."""
        found = os.lstat(path)
        is_own = (found.st_uid, found.st_gid) == (os.geteuid(), os.getegid())
        return not (self._is_privileged or is_own) and os.access(path, os.W_OK)

    def _overlay(self, path: str, is_in_memory: bool = False) -> bool:
        scratch = [] if is_in_memory else self._scratch
        for folder in [*scratch, None]:
            # The folder that holds what is written must not lie in the one that is read.
            if folder is not None and f"{folder}/".startswith(f"{path}/"):
                continue
            with contextlib.suppress(OSError):
                self._mount_overlay(path, folder or self._memory())
                return True
        return False

    def _memory(self) -> str:
        folder = f"{self._root}.memory"
        if not os.path.ismount(folder):
            os.mkdir(folder)
            kernel.mount("tmpfs", folder, "tmpfs", 0, "mode=700")
        return folder

    def _mount_overlay(self, path: str, scratch: str) -> None:
        self._count += 1
        upper, work = (f"{scratch}/{kind}-{self._count}" for kind in ("upper", "work"))
        os.mkdir(upper)
        os.mkdir(work)
        found = os.stat(path)
        os.chmod(upper, self._mode(path, found))
        with contextlib.suppress(PermissionError):
            os.chown(upper, found.st_uid, found.st_gid)
        opened = [os.open(each, os.O_PATH | os.O_DIRECTORY) for each in (path, work)]
        upper_opened = os.open(upper, os.O_RDONLY | os.O_DIRECTORY)
        try:
            # By descriptors: the names may hold what separates options.
            places = [f"/proc/self/fd/{each}" for each in (opened[0], upper_opened, opened[1])]
            options = "lowerdir={},upperdir={},workdir={}".format(*places)
            options += ",redirect_dir=on" if self._is_privileged else ",userxattr"
            # Where overlays mark folders that hide others; without that, some changes fail.
            kind = "trusted" if self._is_privileged else "user"
            os.setxattr(upper, f"{kind}.gpumemprof", b"")
            kernel.mount("overlay", self._root + path, "overlay", 0, options)
            self._check(path)
            os.utime(upper, ns=(found.st_atime_ns, found.st_mtime_ns))
        except OSError:
            os.close(upper_opened)
            raise
        finally:
            for each in opened:
                os.close(each)
        self.layers.append(Layer(path, upper_opened))

    def _mode(self, path: str, found: os.stat_result) -> int:
        """In place of another owner's folder, of the user's: who could not write there cannot."""
        mode = stat.S_IMODE(found.st_mode)
        if self._is_privileged or found.st_uid == os.geteuid():
            return mode
        return mode | 0o700 if os.access(path, os.W_OK) else mode & ~0o222

    def _check(self, path: str) -> None:
        """Some file systems take part in an overlay, and then fail at the first change."""
        probe = f"{self._root}{path}/.gpumemprof-{os.getpid()}"
        try:
            os.mkdir(probe)
            os.rename(probe, f"{probe}-moved")
            os.rmdir(f"{probe}-moved")
        except OSError:
            kernel.unmount(self._root + path)
            raise
