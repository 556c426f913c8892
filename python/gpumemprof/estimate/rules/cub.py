"""Temporary storage of the CUB algorithms that torch calls: radix sort and scan.

The sizes of the tiles are those of CUDA 13's CUB on Hopper.
"""

from __future__ import annotations

from gpumemprof.estimate.rules.tensors import divide_up, round_up

__all__ = ["SCAN_BY_KEY_TILE", "SELECT_TILE", "radix_sort_bytes", "scan_bytes"]

ALIGNMENT = 256
RADIX_BINS = 256
SORT_TILES = {8: 4608, 4: 5376}  # elements, by the bytes of a key
SINGLE_TILE_ELEMENTS = 256 * 19
DIGIT_BITS = 8
DIGIT_BYTES = RADIX_BINS * 8
SCAN_TILE = 1024
SCAN_BY_KEY_TILE = 1280
SELECT_TILE = 4096  # of unique and of run lengths
SCAN_STATUS_BYTES = 16
WARP = 32


def radix_sort_bytes(
    count: int, key_bytes: int, value_bytes: int, key_bits: int | None = None
) -> int:
    """A second buffer for keys and values, and counts of the digits: in all, and of each tile."""
    widest = max(key_bytes, value_bytes, 4)
    if count <= SINGLE_TILE_ELEMENTS * 4 // widest:
        return 1
    buffers = round_up(count * key_bytes, ALIGNMENT) + round_up(count * value_bytes, ALIGNMENT)
    tiles = divide_up(count, SORT_TILES.get(key_bytes, 5376))
    digits = divide_up(key_bits or key_bytes * 8, DIGIT_BITS)
    return buffers + 2 * ALIGNMENT - 1 + digits * DIGIT_BYTES + tiles * RADIX_BINS * 4


def scan_bytes(count: int, tile: int = SCAN_TILE) -> int:
    """The state of each tile."""
    tiles = WARP + divide_up(count, tile)
    return round_up(SCAN_STATUS_BYTES * tiles, ALIGNMENT) + 2 * ALIGNMENT - 1
