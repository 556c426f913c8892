"""The process that reads a failed run's recording; see `explanation`."""

from __future__ import annotations

import json
import os
import time

from gpumemprof import _core
from gpumemprof.errors import Error

__all__ = ["main"]

# A simulation is begun only in this share of the time: the program waits.
_SHARE = 0.4


def _say(explained: _core.ExplainedFailure, page: str, is_last: bool) -> None:
    row = {
        "note": explained.note,
        "page": page,
        "cause": explained.cause,
        "is_last": is_last,
    }
    os.write(1, json.dumps(row).encode() + b"\n")


def main(text: str) -> None:
    """Write one line for each stage: without simulation, with it, and with advice."""
    start = time.monotonic()
    asked = json.loads(text)
    handle = _core.open(os.fsencode(asked["path"]))

    def explain(seconds: float) -> _core.ExplainedFailure:
        arguments = (asked["until_unix_ns"], asked["device"])
        if asked["is_allocator"]:
            try:
                return _core.explain_failure(handle, *arguments, None, seconds, asked["width"])
            except Error:  # no such event was recorded: it may have been a simulated device
                pass
        error = asked["error"].strip().partition("\n")[0]
        return _core.explain_failure(handle, *arguments, error, seconds, asked["width"])

    explained = explain(0)
    is_last = not explained.is_simulation_skipped and explained.room_bytes is None
    _say(explained, explained.page, is_last)
    if explained.is_simulation_skipped:
        left = _SHARE * asked["seconds"] - (time.monotonic() - start)
        explained = explain(left)
        _say(explained, explained.page, explained.room_bytes is None)
    if explained.room_bytes is not None:
        line = _core.cheapest_remedy(handle, explained, asked["width"])
        _say(explained, _with_remedy(explained.page, line), True)


def _with_remedy(page: str, line: str) -> str:
    """The page with one more line, before its last."""
    if not line:
        return page
    before, _, last = page.rpartition("\n")
    return f"{before}\n{line}\n{last}"
