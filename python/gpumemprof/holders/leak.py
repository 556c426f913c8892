"""A line of the program whose memory grows from step to step, and who holds that memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from gpumemprof import _core
from gpumemprof.holders.found import Holders

__all__ = ["Leak", "Site", "leak_at", "site_of"]

Site = tuple[int, str, int, str, bool]


def site_of(row: _core.KeptSiteRow) -> Site:
    """What tells a site from others."""
    return (
        row["device"],
        row["file"] or "",
        row["line"],
        row["function"] or "",
        row["is_backward"],
    )


@dataclass
class Leak:
    """One such line, as it was when it was found.

    >>> watch.leaks[0].where, watch.leaks[0].held_by  # doctest: +SKIP
    ('train.py:41 train()', 'losses[0…28]')
    """

    file: str
    """Empty if it is not known where the memory was allocated."""
    line: int
    function: str
    is_backward: bool
    """Whether it was allocated by the backward of this line."""
    bytes: int
    """What the line holds, in bytes as requested."""
    blocks: int
    growth_bytes_per_step: float | None
    """None: it accumulated, but did not grow lately."""
    device: int = 0
    is_past: bool = False
    """Whether the memory has been freed since."""
    holders: Holders = field(default_factory=Holders)
    repetition: str = "step"
    """What it grows with: a step, or a call of the model, for example."""
    when: str = "now"
    """It held so much."""
    is_until_collected: bool = False
    """Whether the garbage collector frees it."""

    @property
    def site(self) -> Site:
        """What tells it from others."""
        return (self.device, self.file, self.line, self.function, self.is_backward)

    @property
    def held_by(self) -> str:
        """The chain that leads to most of the memory, as text."""
        return self.holders.text()

    @property
    def where(self) -> str:
        """The line, as ``train.py:41 train()``."""
        if not self.file:
            return "a place that is not known"
        text = f"{self.file}:{self.line} {self.function}"
        text = text if text.endswith(">") else f"{text}()"
        return f"the backward of {text}" if self.is_backward else text

    def growth_text(self) -> str:
        """How much there is, and how fast it grows."""
        count = f"{self.blocks:,} block" + ("" if self.blocks == 1 else "s")
        held = f"{_core.format_bytes(self.bytes)} in {count}"
        when = "when it was found, most of it freed since" if self.is_past else self.when
        held += f" {when}"
        if not self.growth_bytes_per_step:
            return held
        rate = _core.format_bytes(round(self.growth_bytes_per_step))
        return f"{rate} a {self.repetition}, {held}"

    @property
    def headline(self) -> str:
        """Where it grows."""
        if self.is_until_collected:
            return f"no leak, but memory grows until the garbage collector runs at {self.where}"
        return f"memory {'grew' if self.is_past else 'grows'} at {self.where}"

    def __str__(self) -> str:
        return f"{self.headline}: {self.growth_text()}; {self.holder_text()}"

    def holder_text(self) -> str:
        """The chain in words."""
        is_sentence = self.held_by.startswith(("held ", "no holder"))
        return self.held_by if is_sentence else f"held by {self.held_by}"

    def row(self) -> dict[str, Any]:
        """As a recording stores it."""
        holders, first = self.holders, self.holders.first
        site = {"file": self.file or None, "line": self.line, "function": self.function or None}
        return {
            "site": {**site, "is_backward": self.is_backward},
            "chain": first.parts() if first is not None else [],
            "text": self.held_by,
            "others": [str(chain) for chain in holders.chains if chain is not first],
            "bytes": self.bytes,
            "blocks": self.blocks,
            "grows": self.growth_bytes_per_step is not None,
            "is_past": self.is_past,
            "looked_at": holders.blocks,
            "held": holders.held_blocks,
        }


def leak_at(row: _core.KeptSiteRow) -> Leak:
    """A leak whose holders are not known yet."""
    return Leak(
        row["file"] or "",
        row["line"],
        row["function"] or "",
        row["is_backward"],
        row["bytes"],
        row["blocks"],
        row["growth_bytes_per_step"],
        row["device"],
    )
