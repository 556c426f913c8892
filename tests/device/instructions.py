"""Counts the instructions of this process, or of one thread, if the machine allows it."""

from __future__ import annotations

import ctypes
import os
import platform
import struct

PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241}
HARDWARE, INSTRUCTIONS = 0, 1
ATTRIBUTE_BYTES = 64  # the first published size of perf_event_attr
INHERIT, EXCLUDE_KERNEL, EXCLUDE_HYPERVISOR = 1 << 1, 1 << 5, 1 << 6


class InstructionCounter:
    """Counts from its creation on; threads that exist by then are not counted.

    Args:
        is_of_thread: that of the caller alone, not those that it starts.
    """

    def __init__(self, is_of_thread: bool = False) -> None:
        flags = EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR | (0 if is_of_thread else INHERIT)
        head = struct.pack("=IIQQQQQ", HARDWARE, ATTRIBUTE_BYTES, INSTRUCTIONS, 0, 0, 0, flags)
        attribute = ctypes.create_string_buffer(head.ljust(ATTRIBUTE_BYTES, b"\0"))
        call = PERF_EVENT_OPEN.get(platform.machine())
        self._file = -1
        if call is not None:
            self._file = ctypes.CDLL(None).syscall(call, attribute, 0, -1, -1, 0)

    def read(self) -> int | None:
        if self._file < 0:
            return None
        return int(struct.unpack("=Q", os.read(self._file, 8))[0])
