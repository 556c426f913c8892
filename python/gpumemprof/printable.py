"""Text from elsewhere (names, paths, messages), made safe to show on a terminal."""

from __future__ import annotations

import re

# As in the core's base/printable.h: controls of ASCII and Latin-1, those of bidirectional text,
# line separators, and what cannot be seen at all.
_ACTS_ON_TERMINAL = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\U000e0000-\U000e007f\ud800-\udfff]"
)


def printable(text: str) -> str:
    """The text with a dot for every character that would act on a terminal instead of being shown.

    >>> printable("a\\x1b[31mb")
    'a.[31mb'
    """
    return _ACTS_ON_TERMINAL.sub(".", text)
