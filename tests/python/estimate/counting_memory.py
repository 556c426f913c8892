"""An allocator that only counts, so that tests know every byte."""

from __future__ import annotations

from dataclasses import replace

from gpumemprof.estimate.cards import find_card

CARD = replace(find_card("h200"), name="Test card", total_bytes=1 << 30, context_bytes=0)


class CountingMemory:
    """Allocates bytes as they are asked for, without rounding, up to a limit."""

    def __init__(self, limit_bytes: int = 1 << 30) -> None:
        self.live: dict[int, int] = {}
        self.sizes: list[int] = []
        self.limit_bytes = limit_bytes
        self.allocated_bytes = 0
        self.peak_allocated_bytes = 0
        self.most_allocated_bytes = 0
        self._next = 1 << 40

    def allocate(
        self, size_bytes: int, stream: int = 0, pool: tuple[int, int] = (0, 0)
    ) -> int | None:
        size = size_bytes
        if self.allocated_bytes + size > self.limit_bytes:
            return None
        self._next += 1 << 32
        self.live[self._next] = size
        self.sizes.append(size)
        self.allocated_bytes += size
        self.peak_allocated_bytes = max(self.peak_allocated_bytes, self.allocated_bytes)
        self.most_allocated_bytes = max(self.most_allocated_bytes, self.allocated_bytes)
        return self._next

    def free(self, address: int) -> bool:
        self.allocated_bytes -= self.live.pop(address)
        return True

    @property
    def reserved_bytes(self) -> int:
        return self.allocated_bytes

    @property
    def peak_reserved_bytes(self) -> int:
        return self.peak_allocated_bytes

    @property
    def most_reserved_bytes(self) -> int:
        return self.most_allocated_bytes

    @property
    def most_reserved_range(self) -> tuple[int, int]:
        return self.most_allocated_bytes, self.most_allocated_bytes

    def empty_cache(self) -> None:
        pass

    def release_pool(self, pool: tuple[int, int]) -> None:
        pass

    def empty_pool(self, pool: tuple[int, int]) -> None:
        pass

    def statistics(self) -> dict[str, int]:
        return {
            "allocated_bytes.all.current": self.allocated_bytes,
            "allocated_bytes.all.peak": self.peak_allocated_bytes,
            "num_alloc_retries": 0,
            "num_ooms": 0,
        }

    def reset_peaks(self) -> None:
        self.peak_allocated_bytes = self.allocated_bytes

    def limit_fraction(self, fraction: float) -> None:
        self.limit_bytes = int(fraction * CARD.total_bytes)
