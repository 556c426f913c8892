"""The registry: what the first process of a program and those it starts tell each other.

Each process adds a line about what it records, so that the first can name all files at its end. The
first line holds what is not for everybody's environment, such as the address of a webhook. It is a
file without a name, which the first process holds open and the others find through /proc: however
that process ends, nothing stays behind.
"""

# Runs at startup of processes that may not need us: imports little.
from __future__ import annotations

import os

MYPY = False
if MYPY:
    from typing import Any

__all__ = ["add", "first_process", "is_first_to_say", "is_mine", "is_there", "make", "read"]

_NAME = "gpumemprof"
# Programs close and reuse low descriptors.
_FLOORS = (512, 64)


def make(private: str = "{}", is_inherited: bool = False) -> str:
    """A new registry of this process: where it is.

    Args:
        private: what its processes are to know, a line of JSON.
        is_inherited: whether it stays open when this process becomes another program.

    Raises:
        OSError: there is no room for it.
    """
    descriptor = _moved_up(_unnamed_file())
    os.fchmod(descriptor, 0o600)
    os.set_inheritable(descriptor, is_inherited)
    os.write(descriptor, private.encode() + b"\n")
    return f"{os.getpid()}:{descriptor}:{os.fstat(descriptor).st_ino}"


def _unnamed_file() -> int:
    if hasattr(os, "memfd_create"):  # Python may be built for an older system.
        try:
            return os.memfd_create(_NAME)
        except OSError:  # The kernel may not have it, or not allow it.
            pass
    try:
        return os.open("/dev/shm", os.O_TMPFILE | os.O_RDWR, 0o600)
    except OSError:
        return os.open(os.environ.get("TMPDIR", "/tmp"), os.O_TMPFILE | os.O_RDWR, 0o600)


def _moved_up(descriptor: int) -> int:
    import fcntl

    for floor in _FLOORS:
        try:
            moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, floor)
        except OSError:  # So many are not allowed.
            continue
        os.close(descriptor)
        return moved
    return descriptor


def first_process(place: str) -> int:
    """The process that holds the registry; 0 if there is none.

    >>> first_process("4711:512:20"), first_process("")
    (4711, 0)
    """
    number = place.partition(":")[0]
    return int(number) if number.isdigit() else 0


def is_mine(place: str) -> bool:
    """Whether this is the first process."""
    return first_process(place) == os.getpid()


def is_there(place: str) -> bool:
    """Whether the first process still holds it."""
    try:
        os.close(_open(place, os.O_RDONLY))
    except (OSError, ValueError):
        return False
    return True


def seal(place: str) -> None:
    """From now on, it does not stay open when this process becomes another program."""
    os.set_inheritable(int(place.split(":")[1]), False)


def _open(place: str, how: int) -> int:
    process, number, inode = place.split(":")
    # It may be anything by now, if the process has ended and another has its number.
    descriptor = os.open(f"/proc/{process}/fd/{number}", how | os.O_NONBLOCK | os.O_NOCTTY)
    if str(os.fstat(descriptor).st_ino) != inode:
        os.close(descriptor)
        raise FileNotFoundError(place)
    return descriptor


def add(place: str, row: Any) -> bool:
    """Add a line; False if there is no registry any more."""
    import json

    try:
        descriptor = _open(place, os.O_WRONLY | os.O_APPEND)
    except (OSError, ValueError):
        return False
    try:
        # A single append: several processes may do so at once.
        os.write(descriptor, json.dumps(row).encode() + b"\n")
    finally:
        os.close(descriptor)
    return True


def _lines(descriptor: int) -> list[bytes]:
    size = os.fstat(descriptor).st_size
    return os.pread(descriptor, size, 0).splitlines()


def read(place: str) -> list[Any]:
    """All lines, what is private first; empty if there is no registry any more."""
    import json

    try:
        descriptor = _open(place, os.O_RDONLY)
    except (OSError, ValueError):
        return []
    try:
        return [json.loads(line) for line in _lines(descriptor)]
    except ValueError:
        return []
    finally:
        os.close(descriptor)


def is_first_to_say(place: str, sentence: str) -> bool:
    """Whether no process has asked for this sentence before; it is not for the others to say."""
    import fcntl
    import json

    line = json.dumps({"said": sentence}).encode()
    try:
        descriptor = _open(place, os.O_RDWR | os.O_APPEND)
    except (OSError, ValueError):
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        is_new = line not in _lines(descriptor)
        if is_new:
            os.write(descriptor, line + b"\n")
    finally:
        os.close(descriptor)
    return is_new
