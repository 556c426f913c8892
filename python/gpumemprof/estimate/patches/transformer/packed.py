"""Sequences without their padding, one behind the other: torch's nested tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.engine.failures import CannotEstimate
from gpumemprof.estimate.engine.fake_mode import outside_modes
from gpumemprof.estimate.engine.shapes.shares import Share
from gpumemprof.estimate.engine.values import known_value

__all__ = ["Packed", "PackedSequences", "send_numbers"]

# Other types are packed and padded row by row.
_PACKED_BY_KERNEL = (torch.float32, torch.float16)
_PADDED_BY_KERNEL = (torch.float32, torch.float64, torch.float16)


class Packed:
    """Stands for a nested tensor of sequences; `rows` has all of them, without padding."""

    is_nested = True
    requires_grad = False

    def __init__(self, rows: torch.Tensor, lengths: Sequence[int]) -> None:
        self.rows = rows
        self.lengths = tuple(lengths)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise CannotEstimate(
            f"a nested tensor was used in a way that cannot be predicted (.{name})",
            "turn the fast path off with torch.backends.mha.set_fastpath_enabled(False)",
        )

    @property
    def dtype(self) -> torch.dtype:
        return self.rows.dtype

    @property
    def device(self) -> torch.device:
        return self.rows.device

    def dim(self) -> int:
        return 3

    def numel(self) -> int:
        return int(self.rows.numel())

    def with_rows(self, rows: torch.Tensor) -> Packed:
        return Packed(rows, self.lengths)

    def to_padded_tensor(self, padding: float, size: Sequence[int] | None = None) -> torch.Tensor:
        batch, width = len(self.lengths), self.rows.size(-1)
        longest = size[1] if size is not None else max(self.lengths)
        if self.dtype not in _PADDED_BY_KERNEL:
            return self._padded_one_by_one(padding, longest)
        padded = self.rows.new_empty((batch, longest, width))
        # Where each sequence begins, and its size: one number more for the end of the last.
        per_sequence = 2 if size is not None else 1
        send_numbers(batch + 1 + per_sequence * batch, torch.int64, padded.device, waits=True)
        return padded

    def _padded_one_by_one(self, padding: float, longest: int) -> torch.Tensor:
        most = max(self.lengths)
        start = 0
        parts = []
        for length in self.lengths:
            part = self.rows[start : start + length]
            parts.append(torch.constant_pad_nd(part, (0, 0, 0, most - length), padding))
            start += length
        padded = torch.stack(parts)
        return torch.constant_pad_nd(padded, (0, 0, 0, longest - most), padding)


def send_numbers(count: int, dtype: torch.dtype, device: torch.device, waits: bool = False) -> None:
    """Numbers that a kernel reads, as 32-bit ones; freed when it has been started."""
    numbers = torch.empty(count, dtype=dtype, device="cpu")
    numbers.to(device, torch.int32, non_blocking=not waits, copy=True)


class PackedSequences:
    """Makes nested tensors of padded ones; a mask is true where a sequence has an element."""

    def __init__(self, device: Device) -> None:
        self._device = device

    def are_left_aligned(self, padded: torch.Tensor, mask: torch.Tensor) -> bool:
        zeros, firsts, counts = _counted(padded, mask)
        answer = _are_equal(counts, firsts)
        del firsts, zeros, counts
        return answer

    def from_mask(self, padded: torch.Tensor, mask: torch.Tensor, mask_check: bool = True) -> Any:
        zeros, firsts, counts = _counted(padded, mask)
        if mask_check and not _are_equal(counts, firsts):
            raise RuntimeError("Mask must be left-aligned without gaps")
        lengths = self._lengths(mask)
        counts = counts.reshape(len(lengths), 1)
        widths = torch.full_like(counts, padded.size(2))
        torch.cat((counts, widths), 1).to("cpu")
        del counts
        packed = self._pack(padded, lengths)
        del widths, firsts, zeros
        return packed

    def _lengths(self, mask: torch.Tensor) -> list[int]:
        known = known_value(mask)
        if known is None:
            self._device.note("shape", "sequences were taken to have the full length")
            return [mask.size(1)] * mask.size(0)
        with outside_modes():
            return [int(each) for each in known.sum(1).tolist()]

    def _pack(self, padded: torch.Tensor, lengths: Sequence[int]) -> Packed:
        batch, _, width = padded.shape
        if padded.dtype not in _PACKED_BY_KERNEL:
            return Packed(_selected(padded, lengths), lengths)
        rows = padded.new_empty((sum(lengths), width))
        # The sizes of all sequences and of the padded tensor, and where each sequence begins.
        send_numbers(2 * batch + 3 + batch + 1, torch.int64, padded.device)
        return Packed(rows, lengths)


def _counted(padded: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """A column of zeros, the first place of each row that is false, how many are true."""
    if mask.dtype != torch.bool:
        raise RuntimeError(f"Expected mask to be of ScalarType Bool, but got {mask.dtype} instead.")
    if mask.dim() != 2 or padded.dim() != 3 or mask.shape != padded.shape[:2]:
        raise RuntimeError("Mask size should match input size")
    zeros = torch.zeros((mask.size(0), 1), dtype=torch.bool, device=mask.device)
    ended = torch.cat((mask, zeros), 1)  # Each of these lives until the last one is made.
    numbers = ended.to(torch.int32)
    firsts = numbers.argmin(1)
    del numbers, ended
    counts = mask.cumsum(1).select(1, mask.size(1) - 1)
    return zeros, firsts, counts


def _are_equal(left: torch.Tensor, right: torch.Tensor) -> bool:
    places = torch.eq(left, right)
    everywhere = places.all()
    answer = bool(everywhere.item())
    del everywhere, places
    return answer


def _selected(padded: torch.Tensor, lengths: Sequence[int]) -> torch.Tensor:
    """Types without a kernel of their own: a mask as large as the tensor selects its elements."""
    batch, longest, width = padded.shape
    masks = []
    for length in lengths:
        mask = torch.full((length, width), True, dtype=torch.bool, device=padded.device)
        masks.append(torch.constant_pad_nd(mask, (0, 0, 0, longest - length)))
        del mask
    selection = torch.stack(masks)
    share = sum(lengths) / (batch * longest)
    selection.__dict__["_hint"] = Share(share, "by the lengths of the sequences")
    return padded.masked_select(selection).view(-1, width)
