"""Keeps the CPU's random numbers in step with a real run.

A program that shuffles its data on the CPU gets the same order as on a GPU only if as many random
numbers were drawn before. Large tensors on the CPU are not filled here, so their numbers are drawn
and thrown away; numbers that a GPU would draw must not come from the CPU's generator at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from gpumemprof.estimate.engine.fake_mode import outside_modes
from gpumemprof.estimate.engine.operation import Operation

__all__ = ["RandomDraws", "is_random", "numbers_from"]

_WORDS = 624  # of the Mersenne twister
_GROUP = 16  # normal numbers are drawn in groups of this size
_MOST = 1_000_000_000  # some seconds; the initial weights of a larger model are not drawn
# torch's state of the generator in words of 64 bits: the seed; how many of the twister's words are
# left, with a flag; which is next; and the twister's words.
_LEFT, _NEXT, _FIRST = 1, 2, 3
_LOW_HALF = 0xFFFFFFFF
_NORMAL = frozenset(("normal_", "randn", "randn_like"))
_UNIFORM = frozenset(("uniform_", "rand", "rand_like", "randint", "randint_like"))


class RandomDraws:
    """Advances the CPU's generator, and has another one for the device."""

    def __init__(self) -> None:
        self.pending = 0
        self._device_state: torch.Tensor | None = None

    def note(self, op: Operation, tensor: FakeTensor, generator: Any) -> None:
        """A tensor on the CPU would have been filled with random numbers."""
        is_normal = op.name in _NORMAL
        if not is_normal and op.name not in _UNIFORM:
            return
        dtype = tensor.dtype
        if tensor.fake_device.type != "cpu":
            return
        count = int(tensor.numel())
        if is_normal and count < _GROUP:
            self.draw()
            with outside_modes():
                torch.empty(count, dtype=dtype).normal_(generator=generator)
            return
        if is_normal and count % _GROUP:
            count += _GROUP  # The last group is drawn again.
        numbers = 2 * count if dtype == torch.float64 else count
        if generator is None:
            self.pending += numbers
        else:  # The program's own: nobody says when it is asked next.
            _advance(generator, numbers)

    def draw(self) -> None:
        """Draw what is missing."""
        count, self.pending = self.pending, 0
        if count:
            _advance(torch.default_generator, count)

    @contextmanager
    def of_device(self) -> Iterator[None]:
        """Random numbers within are the device's."""
        kept = torch.get_rng_state()
        if self._device_state is not None:
            torch.set_rng_state(self._device_state)
        try:
            yield
        finally:
            self._device_state = torch.get_rng_state()
            torch.set_rng_state(kept)


def _advance(generator: torch.Generator, count: int) -> None:
    """Throw away the next numbers of a generator of the CPU."""
    if not 0 < count <= _MOST:
        return
    try:
        import numpy as np
    except ImportError:
        return
    with outside_modes():
        state = generator.get_state()
        words = state.numpy().view(np.uint64)
        left = int(words[_LEFT]) & _LOW_HALF
        twister: Any = np.random.MT19937()
        key = words[_FIRST : _FIRST + _WORDS].astype(np.uint32)
        place = _WORDS if left == 1 else int(words[_NEXT])
        twister.state = {"bit_generator": "MT19937", "state": {"key": key, "pos": place}}
        twister.random_raw(count, output=False)
        found = twister.state["state"]
        words[_FIRST : _FIRST + _WORDS] = found["key"]
        words[_NEXT] = found["pos"]
        words[_LEFT] = int(words[_LEFT]) - left + _WORDS + 1 - found["pos"]
        generator.set_state(state)


@contextmanager
def numbers_from(seed: int) -> Iterator[None]:
    """Random numbers within follow from the seed; the program's own are not touched."""
    kept = torch.get_rng_state()
    torch.manual_seed(seed)
    try:
        yield
    finally:
        torch.set_rng_state(kept)


def is_random(op: Operation) -> bool:
    return torch.Tag.nondeterministic_seeded in op.func.tags
