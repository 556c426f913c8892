"""Sizes as people write and read them."""

from __future__ import annotations

from gpumemprof import _core
from gpumemprof.errors import UsageError

__all__ = ["parse_size", "size"]


def parse_size(flag: str, text: str) -> int:
    """Bytes.

    >>> parse_size("--fit", "24GiB")
    25769803776

    Raises:
        UsageError: it is not a size.
    """
    found = _core.parse_bytes(text)
    if not found:
        raise UsageError(f"{flag} takes a size, not '{text}'", "usage", "", f"try {flag} 24GiB")
    return found


def size(count: int) -> str:
    """As all reports print bytes."""
    return _core.format_bytes(count)
