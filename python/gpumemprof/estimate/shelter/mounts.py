"""The mounts of this process, as the kernel lists them."""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["SPECIAL_KINDS", "read_mounts"]

# They hold no files of a user: devices, and windows into the kernel.
_KINDS = """
autofs binfmt_misc bpf cgroup cgroup2 configfs debugfs devpts devtmpfs efivarfs fusectl hugetlbfs
mqueue nsfs proc pstore ramfs rpc_pipefs securityfs selinuxfs sysfs tracefs
"""
SPECIAL_KINDS = frozenset(_KINDS.split())
_OCTAL = re.compile(r"\\([0-7]{3})")
_PATH, _FIRST_OPTIONAL = 4, 6


def read_mounts() -> dict[str, str]:
    """The kind of file system by the path where it lies; of several at one path, the upper one."""
    found: dict[str, str] = {}
    lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
    for line in lines.splitlines():
        words = line.split(" ")
        path = _OCTAL.sub(lambda match: chr(int(match[1], 8)), words[_PATH])
        kind = words[words.index("-", _FIRST_OPTIONAL) + 1]
        found.pop(path, None)  # so that the order is that in which they are seen
        found[path] = kind
    return found
