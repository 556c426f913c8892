"""``gpumemprof estimate --gpus``: the cards, and where each figure comes from."""

from __future__ import annotations

import json

from gpumemprof.estimate.cards import ASSUMED, CARDS, DEFAULT, MEASURED, PUBLISHED, Card
from gpumemprof.estimate.command.page import paragraph
from gpumemprof.estimate.command.table import table
from gpumemprof.estimate.command.units import size

__all__ = ["as_json", "as_markdown", "as_text"]

_HEAD = ["--gpu", "card", "memory", "context", "free", "sm", "known"]
_IS_TEXT = [True, True, False, False, False, False, True]


def _known(card: Card) -> str:
    return card.total_from if card.total_from == card.context_from else f"{card.total_from} *"


def _row(card: Card) -> list[str]:
    major, minor = card.capability
    return [
        card.id,
        card.title,
        size(card.total_bytes),
        size(card.context_bytes),
        size(card.free_bytes),
        f"{major}.{minor}",
        _known(card),
    ]


def as_text() -> str:
    """As a table for people."""
    return "\n".join(
        [
            *table([_HEAD, *(_row(card) for card in CARDS)], _IS_TEXT),
            "",
            *paragraph(
                f"The default is {DEFAULT}. memory: what CUDA calls total; context: what a process "
                "takes before its first tensor; free: the rest; sm: compute capability."
            ),
            *paragraph(
                f"{MEASURED}: on such a card by us; {PUBLISHED}: as torch printed it on such a "
                f"card; {ASSUMED}: from a similar card. * The context is assumed: the H200's, "
                "scaled by the number of multiprocessors."
            ),
        ]
    )


def as_markdown() -> str:
    """As the documents show it."""
    lines = [
        "| `--gpu` | card | memory | context | free | compute capability | memory is |",
        "|---|---|---:|---:|---:|---:|---|",
    ]
    for card in CARDS:
        cells = [f"`{card.id}`", *_row(card)[1:6], card.total_from]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def as_json() -> str:
    """For scripts."""
    return json.dumps(
        {
            "schema_version": 1,
            "default": DEFAULT,
            "cards": [
                {
                    "id": card.id,
                    "title": card.title,
                    "name": card.name,
                    "aliases": list(card.aliases),
                    "compute_capability": list(card.capability),
                    "multiprocessors": card.multiprocessors,
                    "total_bytes": card.total_bytes,
                    "total_provenance": card.total_from,
                    "context_bytes": card.context_bytes,
                    "context_provenance": card.context_from,
                    "free_bytes": card.free_bytes,
                }
                for card in CARDS
            ],
        },
        indent=2,
    )
