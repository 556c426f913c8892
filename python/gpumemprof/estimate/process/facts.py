"""What a predicted recording says about itself, in the facts of its header.

A fact is a name and a text of at most 64 KiB, so every assumption is a fact of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from gpumemprof.estimate.cards import Card

__all__ = [
    "ASSUMPTION",
    "CERTAINTY",
    "COMMUNICATORS",
    "ENDED",
    "LIMIT_REACHED",
    "OUT_OF_MEMORY",
    "RESERVED_RANGE",
    "assumption_facts",
    "certainty_facts",
    "engine_facts",
    "first_facts",
    "range_facts",
]

PREDICTED = "estimate"
CARD = "estimate card"
LIMIT = "estimate limit_bytes"
ENDED = "estimate ended"
OUT_OF_MEMORY = "out of memory"
LIMIT_REACHED = "limit"
"""Values of ENDED: why the program ended."""
CERTAINTY = "estimate certainty"
ASSUMPTION = "estimate assumption "
COMMUNICATORS = "estimate communicators"
RESERVED_RANGE = "estimate reserved_range"

_MOST_ASSUMPTIONS = 500


def first_facts(card: Card, limit_bytes: int, index: int = 0) -> dict[str, str]:
    """What is known when the program starts."""
    return {
        PREDICTED: "predicted",
        CARD: card.id,
        LIMIT: str(limit_bytes),
        "device 0": card.name,  # what the head of a report names
        f"device {index}": card.name,
        f"device {index} total_bytes": str(card.total_bytes),
    }


def engine_facts(found: Any) -> dict[str, str]:
    """What the engine found; see `gpumemprof.estimate.engine.facts`."""
    rows = [
        (entry.kind, entry.text, entry.line.file, entry.line.number, entry.count)
        for entry in found.assumptions
    ]
    return {
        **certainty_facts(found.bytes_by_certainty),
        **range_facts(found.reserved_range),
        **({COMMUNICATORS: str(found.communicators)} if found.communicators else {}),
        **assumption_facts(rows),
    }


def certainty_facts(certainty: Mapping[str, int] | None) -> dict[str, str]:
    """Bytes at the peak by certainty; nothing if they are unknown."""
    return {} if certainty is None else {CERTAINTY: json.dumps(dict(certainty))}


def range_facts(reserved: tuple[int, int] | None) -> dict[str, str]:
    """Between which figures the peak of reserved memory is, wherever segments are placed."""
    return {} if reserved is None else {RESERVED_RANGE: json.dumps(reserved)}


def assumption_facts(rows: Iterable[tuple[str, str, str, int, int]]) -> dict[str, str]:
    """From kind, text, file, line and count of each assumption; the most frequent are kept."""
    kept = sorted(rows, key=lambda row: -row[4])[:_MOST_ASSUMPTIONS]
    names = ("kind", "text", "file", "line", "count")
    return {
        f"{ASSUMPTION}{number}": json.dumps(dict(zip(names, row)))
        for number, row in enumerate(kept)
    }
