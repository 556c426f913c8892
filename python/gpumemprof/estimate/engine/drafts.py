"""Small tensors that are created empty and then written part by part, through views of them.

Their values become known once each element has been written with a known value.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from gpumemprof.estimate.engine.fake_mode import without_fake_mode
from gpumemprof.estimate.engine.operation import Operation

__all__ = ["follow_view", "note_written", "start"]


class _Draft:
    """The elements of one empty tensor, with those of its views that still exist."""

    def __init__(self, written: torch.Tensor) -> None:
        self._parts: list[tuple[weakref.ref[FakeTensor], torch.Tensor]] = []
        self._written = written
        self._is_assumed = False
        self._is_known = False

    def add(self, fake: FakeTensor, data: torch.Tensor, written: torch.Tensor) -> None:
        self._parts = [part for part in self._parts if part[0]() is not None]
        self._parts.append((weakref.ref(fake), data))
        fake.__dict__["_draft"] = (self, data, written)
        if self._is_known:
            self._tell(fake, data)

    def after_writing(self, is_assumed: bool) -> None:
        """Some elements were written."""
        self._is_assumed = self._is_assumed or is_assumed
        was_known, self._is_known = self._is_known, bool(self._written.all())
        if was_known or self._is_known:
            for reference, data in self._parts:
                fake = reference()
                if fake is not None:
                    self._tell(fake, data)

    def _tell(self, fake: FakeTensor, data: torch.Tensor) -> None:
        if not self._is_known:
            fake.__dict__.pop("_known_value", None)
            return
        fake.__dict__["_known_value"] = data
        if self._is_assumed:
            fake.__dict__["_assumed"] = True


def start(fake: FakeTensor) -> None:
    with without_fake_mode():
        data = torch.zeros(fake.shape, dtype=fake.dtype, device="cpu")
        written = torch.zeros(fake.shape, dtype=torch.bool, device="cpu")
        _Draft(written).add(fake, data, written)


def follow_view(op: Operation, args: Any, kwargs: Any, output: FakeTensor) -> None:
    """A view of such a tensor shares its elements."""
    draft, data, written = args[0].__dict__["_draft"]
    if output.dtype != data.dtype:
        return
    try:
        with without_fake_mode(), torch.no_grad():
            parts = [op.func(each, *args[1:], **kwargs) for each in (data, written)]
    except Exception:  # What is written through it will not become known.
        return
    draft.add(output, *parts)


def note_written(fake: FakeTensor, value: torch.Tensor | None, is_assumed: bool) -> None:
    """All elements of such a tensor, or of a view of it, were written; None is an unknown value."""
    draft, data, written = fake.__dict__["_draft"]
    if fake.shape != data.shape:  # It was resized, or is another tensor now.
        del fake.__dict__["_draft"]
        return
    with without_fake_mode(), torch.no_grad():
        written.fill_(value is not None)
        if value is not None and value is not data:
            data.copy_(value)
        draft.after_writing(is_assumed)
