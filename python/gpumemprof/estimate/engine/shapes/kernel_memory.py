"""What kernels allocate beside results whose size depends on values, as tensors that die soon."""

from __future__ import annotations

import torch

from gpumemprof.estimate.rules.cub import SELECT_TILE, radix_sort_bytes, scan_bytes

__all__ = ["bytes_on", "take_nms_memory", "take_unique_memory"]

_LARGEST_IN_PLACE = 4096  # of rows that are sorted without CUB
_MASK_BITS = 64


def bytes_on(tensor: torch.Tensor, count: int) -> torch.Tensor:
    return torch.empty(count, dtype=torch.uint8, device=tensor.device)


def take_nms_memory(boxes: torch.Tensor) -> list[torch.Tensor]:
    """Of torchvision's kernel: held until its result is there."""
    count = boxes.shape[0]
    scores = bytes_on(boxes, 4 * count)
    order, numbers = bytes_on(boxes, 8 * count), bytes_on(boxes, 8 * count)
    if count > _LARGEST_IN_PLACE:
        bytes_on(boxes, radix_sort_bytes(count, 4, 8))
    del numbers, scores
    words = -(-count // _MASK_BITS)
    return [order, *(bytes_on(boxes, size) for size in (boxes.nbytes, 8 * words * count, count))]


def take_unique_memory(
    tensor: torch.Tensor, with_inverse: bool
) -> tuple[list[torch.Tensor], torch.Tensor | None]:
    """Of `unique`, which sorts: held until its results are there; and the inverse."""
    count, item = tensor.numel(), tensor.element_size()
    held = [bytes_on(tensor, count * item)]
    if not with_inverse:
        is_float = tensor.dtype == torch.float32
        bytes_on(tensor, radix_sort_bytes(count, item, 0, None, is_float))
        return held, None
    numbers = bytes_on(tensor, 8 * count)
    held.append(bytes_on(tensor, 8 * count))
    bytes_on(tensor, radix_sort_bytes(count, item, 8))
    del numbers
    inverse = tensor.new_empty(tensor.shape, dtype=torch.int64)
    heads = bytes_on(tensor, 8 * count)
    bytes_on(tensor, scan_bytes(count, SELECT_TILE))
    del heads
    return held, inverse
