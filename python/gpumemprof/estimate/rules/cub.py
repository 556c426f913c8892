"""Temporary storage of the CUB algorithms that torch calls: radix sort and scan.

The sizes of the tiles are those of CUDA 13's CUB on Hopper.
"""

from __future__ import annotations

from gpumemprof.estimate.rules.tensors import divide_up, round_up

__all__ = [
    "ALIGNMENT",
    "SCAN_BY_KEY_TILE",
    "SELECT_TILE",
    "radix_sort_bytes",
    "row_scan_bytes",
    "scan_bytes",
]

ALIGNMENT = 256
RADIX_BINS = 256
# Elements of a tile, by the bytes of a key: sorted with values of 8 bytes, and alone.
PAIR_TILES = {8: 4608, 4: 5376, 2: 5632, 1: 3456}
KEY_TILES = {8: 5760, 4: 7296, 2: 9728, 1: 9728}
FLOAT_KEY_TILE = 6912
SINGLE_TILE_ELEMENTS = 256 * 19
DIGIT_BITS = 8
DIGIT_BYTES = RADIX_BINS * 8
SCAN_TILE = 1024
SCAN_BY_KEY_TILE = 1280
SELECT_TILE = 4096  # of unique and of run lengths
SCAN_STATUS_BYTES = 16
# Of the scan of a whole row, by the bytes of an element: elements of a tile, bytes of its state.
ROW_SCAN_TILES = {8: (896, 16), 4: (1920, 8), 2: (7680, 16), 1: (7680, 16)}
WARP = 32


def radix_sort_bytes(
    count: int,
    key_bytes: int,
    value_bytes: int,
    key_bits: int | None = None,
    has_float_keys: bool = False,
) -> int:
    """A second buffer for keys and values, and counts of the digits: in all, and of each tile."""
    widest = max(key_bytes, value_bytes, 4)
    if count <= SINGLE_TILE_ELEMENTS * 4 // widest:
        return 1
    digits = divide_up(key_bits or key_bytes * 8, DIGIT_BITS)
    buffers = 0
    if digits > 1:  # One pass writes from the input to the output.
        buffers = round_up(count * key_bytes, ALIGNMENT) + round_up(count * value_bytes, ALIGNMENT)
    tile = PAIR_TILES[key_bytes] if value_bytes == 8 else KEY_TILES[key_bytes]
    if has_float_keys and not value_bytes and key_bytes == 4:
        tile = FLOAT_KEY_TILE
    tiles = divide_up(count, tile)
    return buffers + 2 * ALIGNMENT - 1 + digits * DIGIT_BYTES + tiles * RADIX_BINS * 4


def scan_bytes(count: int, tile: int = SCAN_TILE) -> int:
    """The state of each tile."""
    tiles = WARP + divide_up(count, tile)
    return round_up(SCAN_STATUS_BYTES * tiles, ALIGNMENT) + 2 * ALIGNMENT - 1


def row_scan_bytes(count: int, item: int) -> int:
    tile, state = ROW_SCAN_TILES.get(item, (448, 32))
    return round_up(state * (WARP + divide_up(count, tile)), ALIGNMENT) + 2 * ALIGNMENT - 1
