"""Asks the kernel to let this process and its children write in some folders only."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Sequence

from gpumemprof.estimate.shelter import kernel

__all__ = ["REFUSES_TRUNCATING", "restrict", "version"]

_CREATE_RULESET = 444
_ADD_RULE = 445
_RESTRICT_SELF = 446
_VERSION = 1
_PATH_BENEATH = 1

# All that changes a file or a folder, by the version of Landlock that has it. Version 1 always
# refuses to move a file to another folder; before version 3, it cannot refuse to truncate.
_WRITE_FILE = 1 << 1
_WRITES = {
    1: _WRITE_FILE | sum(1 << bit for bit in range(4, 13)),  # remove and make, of every kind
    2: 1 << 13,  # move to another folder
    3: 1 << 14,  # truncate
}


REFUSES_TRUNCATING = 3
"""The version from which on files cannot be truncated by their path: Linux 6.2."""


class _Ruleset(ctypes.Structure):
    _fields_ = [("handled", ctypes.c_uint64)]


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32)]


def version() -> int:
    """That of the kernel; 0 if it has none."""
    try:
        return kernel.system_call(
            _CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION)
        )
    except OSError:
        return 0


def restrict(folders: Sequence[str]) -> None:
    """From now on, and for good, only what lies in these folders can be written."""
    current = version()
    handled = sum(bits for since, bits in _WRITES.items() if since <= current)
    ruleset = _Ruleset(handled)
    descriptor = kernel.system_call(
        _CREATE_RULESET,
        ctypes.byref(ruleset),
        ctypes.c_size_t(ctypes.sizeof(ruleset)),
        ctypes.c_uint32(0),
    )
    try:
        for folder in folders:
            with contextlib.suppress(FileNotFoundError):
                _allow(descriptor, folder, handled)
        kernel.deny_new_privileges()
        kernel.system_call(_RESTRICT_SELF, ctypes.c_int(descriptor), ctypes.c_uint32(0))
    finally:
        os.close(descriptor)


def _allow(ruleset: int, folder: str, what: int) -> None:
    parent = os.open(folder, os.O_PATH | os.O_CLOEXEC)
    try:
        rule = _Beneath(what, parent)
        kernel.system_call(
            _ADD_RULE,
            ctypes.c_int(ruleset),
            ctypes.c_int(_PATH_BENEATH),
            ctypes.byref(rule),
            ctypes.c_uint32(0),
        )
    finally:
        os.close(parent)
