"""An estimate with an allocator that only counts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

torch = pytest.importorskip("torch")

from counting_memory import CARD, CountingMemory  # noqa: E402
from gpumemprof.estimate.engine import session  # noqa: E402


@pytest.fixture
def memory() -> CountingMemory:
    return CountingMemory()


@pytest.fixture
def estimate(memory: CountingMemory) -> Iterator[session.Session]:
    with session.estimating(CARD, memory=memory) as running:
        yield running
