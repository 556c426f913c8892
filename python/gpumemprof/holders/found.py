"""What a search for holders found."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpumemprof.holders.chain import Chain

__all__ = ["Holders"]


@dataclass
class Holders:
    """What a search found."""

    chains: list[Chain] = field(default_factory=list)
    """The most telling first."""
    cycle: str | None = None
    """A reference cycle that holds memory no name leads to: only the garbage collector frees it."""
    blocks: int = 0
    """How many blocks were looked at."""
    held_blocks: int = 0
    """Of these, how many have a name that holds them."""
    unknown_holder: str | None = None
    """What holds the rest, as far as it can be seen; None if nothing does."""
    is_whole: bool = True
    """False: the search ended early, because there is too much to search."""
    seconds: float = 0.0
    """The CPU time it took."""

    @property
    def is_known(self) -> bool:
        """Whether a name or a cycle was found."""
        return bool(self.chains) or self.cycle is not None

    def text(self) -> str:
        """The first chain, or why there is none, in one line."""
        if self.chains:
            return str(self.chains[0])
        if self.cycle is not None:
            return f"a reference cycle that only the garbage collector frees: {self.cycle}"
        if self.unknown_holder is not None:
            return self.unknown_holder
        return "no holder found" if self.is_whole else "no holder found in the time allowed"
