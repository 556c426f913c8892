"""Which programs there are, and which set each belongs to: open, or one of the blind sets."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

PROGRAMS = Path(__file__).resolve().parent
# Predicted before their truth was recorded.
BLIND_SETS = (
    "blind",
    "blind_two",
    "blind_three",
    "blind_four",
    "blind_five",
    "blind_six",
    "blind_seven",
    "blind_eight",
    "blind_nine",
)


def read_index(part: str, only: Sequence[str] = ()) -> list[dict[str, Any]]:
    """The programs of a set, or of all; `only` chooses by name instead."""
    programs: list[dict[str, Any]] = json.loads((PROGRAMS / "index.json").read_text())["programs"]
    lists = {blind: PROGRAMS / f"{blind}.txt" for blind in BLIND_SETS}
    set_of = {
        name: blind
        for blind, path in lists.items()
        if path.exists()
        for name in path.read_text().split()
    }
    unknown = (set(only) | set(set_of)) - {program["name"] for program in programs}
    if unknown:
        sys.exit(f"There is no program {min(unknown)!r} in {PROGRAMS / 'index.json'}.")
    for program in programs:
        program["set"] = set_of.get(program["name"], "open")
    return [
        program
        for program in programs
        if (program["name"] in only if only else part in ("all", program["set"]))
    ]
