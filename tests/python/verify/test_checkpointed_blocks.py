"""Checkpointing some of a model's blocks, as the advice numbers them."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from gpumemprof.verify.apply import checkpointing  # noqa: E402
from gpumemprof.verify.apply.checkpointing import Checkpointing  # noqa: E402
from gpumemprof.verify.apply.effect import Effect, Request  # noqa: E402


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(2, 2)

    def forward(self, inputs):
        return self.inner(inputs)


@pytest.mark.parametrize(("of", "expected"), [(4, [0, 2]), (5, [0, 1, 2, 3])])
def test_the_blocks_of_the_advice_are_checkpointed(monkeypatch, of, expected) -> None:
    """All of them, if the model has another number of blocks than the advice counted."""
    model = torch.nn.Sequential(*(Block() for _ in range(4)))
    monkeypatch.setattr(checkpointing, "live_modules", lambda: list(model.modules()))
    monkeypatch.setattr(Block, "forward", Block.forward)
    effect = Effect("checkpointing")
    request = Request("", ["checkpointing"], checkpoint_blocks=[0, 2], checkpoint_of=of)
    applied = Checkpointing(effect, request)
    applied._before_root(model)
    assert [number for number in range(4) if model[number] in applied._checkpointed] == expected
    assert effect.what == f"{len(expected)} modules of class Block"
