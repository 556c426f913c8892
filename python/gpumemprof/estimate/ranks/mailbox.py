"""How ranks that are predicted at the same time pass small objects on: files in a folder.

A collective never waits for other ranks, except where the program cannot go on without what another
one sends: an object, or a few integers such as a shape.
"""

from __future__ import annotations

import io
import pickle
import time
from pathlib import Path
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from gpumemprof.estimate.engine.fake_mode import outside_modes
from gpumemprof.estimate.engine.values import known_value, set_known
from gpumemprof.estimate.ranks import letters
from gpumemprof.estimate.ranks.world import World

__all__ = ["MISSING", "Mailbox"]

MISSING = object()
_SECONDS_BETWEEN = 0.02
# If all ranks wait for so long, none of them will send anything.
_SECONDS_OF_STANDSTILL = 5.0


class Mailbox:
    """This rank's view of the folder."""

    def __init__(self, world: World | None) -> None:
        self._rank = 0 if world is None else world.rank
        self._folder = None if world is None or not world.mailbox else Path(world.mailbox)
        self._counts: dict[str, int] = {}
        self._predicted = set() if self._folder is None else letters.predicted_ranks(self._folder)

    def post(self, kind: str, value: Any) -> None:
        """Leave the next letter of this kind from this rank."""
        if self._folder is None:
            return
        path = self._path(kind, self._rank)
        partial = path.with_suffix(".partial")
        with partial.open("wb") as file:
            _Pickler(file).dump(value)
        partial.replace(path)

    def take(self, kind: str, sender: int) -> Any:
        """The sender's next letter of this kind; `MISSING` if there will be none."""
        if self._folder is None or sender not in self._predicted:
            return MISSING
        path = self._path(kind, sender)
        if not path.exists():
            self._wait(path, sender)
        try:
            return pickle.loads(path.read_bytes())  # noqa: S301: written by another rank of ours
        except FileNotFoundError:
            return MISSING

    def _path(self, kind: str, sender: int) -> Path:
        assert self._folder is not None
        key = f"{kind}.from{sender}"
        number = self._counts[key] = self._counts.get(key, 0) + 1
        return self._folder / f"{key}.{number}"

    def _wait(self, path: Path, sender: int) -> None:
        """Until it is there, the sender has ended, or all ranks wait for each other."""
        assert self._folder is not None
        since = time.monotonic()
        with letters.waiting(self._folder, self._rank):
            while not path.exists() and not letters.has_ended(self._folder, sender):
                if not letters.all_wait(self._folder):
                    since = time.monotonic()
                elif time.monotonic() - since > _SECONDS_OF_STANDSTILL:
                    return
                time.sleep(_SECONDS_BETWEEN)


class _Pickler(pickle.Pickler):
    """A tensor without data keeps its shape and device, and its value if that is known."""

    def __init__(self, file: Any) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)

    def reducer_override(self, value: Any) -> Any:
        if not isinstance(value, FakeTensor):
            return NotImplemented
        known = known_value(value)
        stored = None
        if known is not None:
            with outside_modes():
                buffer = io.BytesIO()
                _real_save(known.detach().clone(), buffer)
                stored = buffer.getvalue()
        return _rebuilt, (
            tuple(value.shape),
            value.stride(),
            value.dtype,
            value.fake_device.type,
            value.requires_grad,
            stored,
        )


# torch.save and torch.load are replaced while a program is predicted.
_real_save, _real_load = torch.save, torch.load


def _rebuilt(
    shape: tuple[int, ...],
    stride: tuple[int, ...],
    dtype: torch.dtype,
    device: str,
    requires_grad: bool,
    stored: bytes | None,
) -> torch.Tensor:
    tensor = torch.empty_strided(shape, stride, dtype=dtype, device=device)
    if stored is not None:
        with outside_modes():
            set_known(tensor, _real_load(io.BytesIO(stored)))
    return tensor.requires_grad_(requires_grad)
