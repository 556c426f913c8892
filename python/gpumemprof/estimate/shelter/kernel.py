"""The calls of Linux for which Python has no function."""

from __future__ import annotations

import ctypes
import os

__all__ = [
    "CLONE_NEWNS",
    "CLONE_NEWUSER",
    "MS_BIND",
    "MS_PRIVATE",
    "MS_REC",
    "MS_SLAVE",
    "deny_new_privileges",
    "make_read_only",
    "mount",
    "set_namespace",
    "system_call",
    "unmount",
    "unshare",
]

CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
MS_BIND = 4096
MS_REC = 16384
MS_PRIVATE = 1 << 18
MS_SLAVE = 1 << 19

_PR_SET_NO_NEW_PRIVS = 38
_MNT_DETACH = 2
_MOUNT_SETATTR = 442
_AT_FDCWD = -100
_AT_RECURSIVE = 0x8000
_MOUNT_ATTR_RDONLY = 1

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def _check(result: int, what: str) -> int:
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
    return result


def system_call(number: int, *arguments: object) -> int:
    """Raises OSError like the functions of `os`."""
    return _check(_libc.syscall(ctypes.c_long(number), *arguments), f"system call {number}")


def unshare(flags: int) -> None:
    _check(_libc.unshare(flags), "unshare")


def set_namespace(path: str, kind: int) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _check(_libc.setns(descriptor, kind), path)
    finally:
        os.close(descriptor)


def mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    encoded = [os.fsencode(text) for text in (source, target, kind, options)]
    _check(_libc.mount(*encoded[:3], ctypes.c_ulong(flags), encoded[3] or None), target)


def unmount(path: str) -> None:
    _check(_libc.umount2(os.fsencode(path), _MNT_DETACH), path)


def make_read_only(path: str) -> None:
    """A mount, and all mounts below it."""

    class MountAttributes(ctypes.Structure):
        _fields_ = [
            ("set", ctypes.c_uint64),
            ("clear", ctypes.c_uint64),
            ("propagation", ctypes.c_uint64),
            ("user_namespace", ctypes.c_uint64),
        ]

    wanted = MountAttributes(set=_MOUNT_ATTR_RDONLY)
    system_call(
        _MOUNT_SETATTR,
        ctypes.c_int(_AT_FDCWD),
        ctypes.c_char_p(os.fsencode(path)),
        ctypes.c_uint(_AT_RECURSIVE),
        ctypes.byref(wanted),
        ctypes.c_size_t(ctypes.sizeof(wanted)),
    )


def deny_new_privileges() -> None:
    """Set-uid programs run as this user from now on: what Landlock asks for."""
    _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl")
