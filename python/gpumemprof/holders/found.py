"""What a search for holders found."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpumemprof.holders.chain import Chain

__all__ = ["Holders"]

_LEAST_SHARE = 4  # the fourth part of the blocks


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
    def first(self) -> Chain | None:
        """The most telling chain; None if nearly all is held by a cycle, and a name holds the rest.

        A variable may still hold the newest of many cycles.
        """
        if not self.chains or (self.cycle is not None and not self._has_names):
            return None
        return self.chains[0]

    @property
    def _has_names(self) -> bool:
        return self.held_blocks * _LEAST_SHARE >= self.blocks and bool(self.chains)

    def tell_more_than(self, others: Holders) -> bool:
        """Whether these say who holds the memory, and those do not."""
        return self._rank > others._rank

    @property
    def _rank(self) -> int:
        """A name that holds little of it may hold what took the place of freed memory."""
        if self.chains and 2 * self.held_blocks >= self.blocks:
            return 3
        return 2 if self.cycle is not None else int(self._has_names)

    def text(self) -> str:
        """The first chain, or why there is none, in one line."""
        if self.first is not None:
            return str(self.first)
        if self.cycle is not None:
            return f"a reference cycle that only the garbage collector frees: {self.cycle}"
        if self.unknown_holder is not None:
            return self.unknown_holder
        return "no holder found" if self.is_whole else "no holder found in the time allowed"
