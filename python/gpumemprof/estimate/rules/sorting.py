"""Sorts, scans and permutations."""

from __future__ import annotations

import math
from typing import Any

import torch

from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.rules.copies import copies_inputs
from gpumemprof.estimate.rules.cub import (
    ALIGNMENT,
    SCAN_BY_KEY_TILE,
    radix_sort_bytes,
    row_scan_bytes,
    scan_bytes,
)
from gpumemprof.estimate.rules.reductions.hooks import take_reduction_memory
from gpumemprof.estimate.rules.table import Call, rule
from gpumemprof.estimate.rules.tensors import bytes_of, divide_up, is_on_card, round_up

__all__: list[str] = []

INDEX_BYTES = 8
LARGEST_IN_PLACE = 4096
LARGE_SEGMENT = 1_000_000
MANY_SEGMENTS = 128


@rule("sort", certainty="exact")
def sort(device: Device, call: Call, outputs: Any) -> None:
    """Short rows are sorted in place; longer ones by CUB, one by one or all together."""
    tensor = call.args[0]
    if not is_on_card(tensor) or tensor.dim() == 0:
        return
    dimension = call.argument("dim", -1)
    length = tensor.size(dimension)
    if length <= LARGEST_IN_PLACE:
        device.temporary(INDEX_BYTES * length, call.name)
        return
    copies = []
    if tensor.stride(dimension) != 1:
        # Sorted as rows, and copied to the results then.
        sizes = (bytes_of(tensor), bytes_of(tensor), INDEX_BYTES * tensor.numel())
        copies = [device.allocate(size, call.name) for size in sizes]
    sort_rows(device, call, tensor.element_size(), tensor.numel() // length, length)
    for address in reversed(copies):
        device.free(address)


def sort_rows(device: Device, call: Call, key: int, rows: int, length: int) -> None:
    """Rows of `key` bytes for each element, with the places of the elements."""
    count = rows * length
    if rows == 1 or length >= LARGE_SEGMENT:
        numbers = device.allocate(INDEX_BYTES * length, call.name)
        for _ in range(rows):
            device.temporary(radix_sort_bytes(length, key, INDEX_BYTES), call.name)
        device.free(numbers)
    elif rows < MANY_SEGMENTS:
        pairs = [device.allocate(INDEX_BYTES * count, call.name) for _ in range(2)]
        device.held(call.name, key * count, radix_sort_bytes(count, key, INDEX_BYTES))
        bits = max(1, (rows - 1).bit_length())
        device.temporary(radix_sort_bytes(count, INDEX_BYTES, 0, bits), call.name)
        for address in reversed(pairs):
            device.free(address)
    else:
        numbers = device.allocate(INDEX_BYTES * count, call.name)
        buffers = round_up(count * key, ALIGNMENT) + round_up(count * INDEX_BYTES, ALIGNMENT)
        device.temporary(buffers + ALIGNMENT - 1, call.name)
        device.free(numbers)


# From this many elements in a row, several blocks search it; by the number of rows.
SEARCHED_BY_SEVERAL = ((20, 20000), (40, 10000), (80, 8000), (199, 5000), (799, 3000), (4000, 800))
MANY_ROWS = 400
TOPK_THREADS = 256
TOPK_BLOCKS = 6  # at once on a multiprocessor
FEWEST_ITEMS, MOST_ITEMS = 4, 64  # of a thread


@rule("topk", certainty="exact")
def largest(device: Device, call: Call, outputs: Any) -> None:
    """Several blocks search a long row digit by digit; many results are sorted like any tensor."""
    tensor, count = call.args[:2]
    if not is_on_card(tensor) or tensor.dim() == 0 or not is_on_card(outputs[0]):
        return
    length = tensor.size(call.argument("dim", -1))
    search(device, call, tensor, tensor.numel() // length, length)
    if call.argument("sorted", True) and count > LARGEST_IN_PLACE:
        values, places = bytes_of(outputs[0]), bytes_of(outputs[1])
        held = [device.allocate(size, call.name) for size in (places, values)]
        sort_rows(device, call, tensor.element_size(), outputs[0].numel() // count, count)
        device.temporary(places, call.name)
        for address in reversed(held):
            device.free(address)


def search(device: Device, call: Call, tensor: torch.Tensor, rows: int, length: int) -> None:
    """A tensor of another layout is copied first."""
    copy = 0 if tensor.is_contiguous() else device.allocate(bytes_of(tensor), call.name)
    take_search_memory(device, call, tensor.element_size(), rows, length)
    device.free(copy)


def take_search_memory(device: Device, call: Call, key: int, rows: int, length: int) -> None:
    least = next((least for most, least in SEARCHED_BY_SEVERAL if rows <= most), MANY_ROWS)
    if length < least:
        return
    threads = device.card.multiprocessors * TOPK_BLOCKS * TOPK_THREADS
    items = min(MOST_ITEMS, max(FEWEST_ITEMS, divide_up(rows * length, threads)))
    blocks = rows * divide_up(length, items * TOPK_THREADS)
    digits = 256
    wide = 16 if key == 8 else 8
    sizes = (key * rows, 8 * rows, wide * rows, 2 * digits * blocks, 4 * digits * rows)
    held = [device.allocate(size, call.name) for size in (*sizes, 4 * blocks, 4 * blocks)]
    for _ in range(2):
        device.temporary(scan_bytes(blocks, SCAN_BY_KEY_TILE), call.name)
    for address in reversed(held):
        device.free(address)


@rule("median", "nanmedian", certainty="fitted", hook="births")
def median(device: Device, call: Call, outputs: Any) -> None:
    """The only number of a whole tensor is found by sorting it."""
    tensor = call.args[0]
    if not isinstance(outputs, torch.Tensor) or not is_on_card(tensor):
        device.births(outputs, call.name)
        return
    count, key = tensor.numel(), tensor.element_size()
    ordered = device.allocate(key * count, call.name)
    places = device.allocate(INDEX_BYTES * count, call.name)
    if count <= LARGEST_IN_PLACE:
        device.temporary(INDEX_BYTES * count, call.name)
    else:
        sort_rows(device, call, key, 1, count)
    device.free(places)
    if call.name == "nanmedian":
        device.held(call.name, count, INDEX_BYTES, INDEX_BYTES * count)
    mask = device.allocate(1, call.name) if call.name == "median" else 0
    device.births(outputs, call.name)
    device.free(mask)
    device.free(ordered)


@rule("cumsum", "cumprod", "logcumsumexp", certainty="exact")
def scan(device: Device, call: Call, outputs: Any) -> None:
    """The input in the type of the result; the only row of a tensor is scanned by many blocks."""
    tensor = call.args[0]
    if not is_on_card(tensor) or tensor.dim() == 0:
        return
    sizes = []
    if tensor.dtype != outputs.dtype:
        sizes.append(bytes_of(outputs))
    if not tensor.is_contiguous():
        sizes.append(bytes_of(outputs))
    if tensor.numel() == tensor.size(call.argument("dim", 0)):
        sizes.append(row_scan_bytes(tensor.numel(), outputs.element_size()))
    device.held(call.name, *sizes)


@rule("randperm", certainty="exact")
def random_permutation(device: Device, call: Call, outputs: Any) -> None:
    """Random keys are sorted together with the numbers."""
    if not is_on_card(outputs):
        return
    count = outputs.numel()
    device.temporary(outputs.element_size(), call.name)
    # So many bits that two keys are alike once in ten times.
    chance = math.log(0.9) * 12
    bits = min(64, math.ceil(math.log2(count - (6 * count * count + 1) / chance)))
    key = 4 if bits <= 32 else 8
    sort_bytes = radix_sort_bytes(count, key, outputs.element_size(), bits)
    device.held(call.name, bytes_of(outputs), count * key, count * key, sort_bytes)


@rule("multinomial", certainty="fitted")
def sample(device: Device, call: Call, outputs: Any) -> None:
    """Each probability is divided by a random number; the largest quotients win.

    With replacement, the sums of the probabilities are searched for random numbers.
    """
    probabilities = call.args[0]
    if not is_on_card(outputs):
        return
    size = bytes_of(probabilities)
    rows = probabilities.size(0) if probabilities.dim() > 1 else 1
    length = probabilities.size(-1)
    if outputs.size(-1) > 1 and call.argument("replacement", False):
        scan = row_scan_bytes(length, probabilities.element_size()) if rows == 1 else 0
        device.held(call.name, size, size, size, scan)
        return
    flags = check_probabilities(device, call, probabilities)
    quotients = device.allocate(size, call.name)
    if outputs.size(-1) == 1:
        take_reduction_memory(device, probabilities, [-1], 2 * INDEX_BYTES)
    else:
        size = outputs.numel() * probabilities.element_size()
        winners = device.allocate(size, call.name)
        search(device, call, probabilities, rows, length)
        device.free(winners)
    for address in (quotients, *flags):
        device.free(address)


def check_probabilities(device: Device, call: Call, tensor: Any) -> tuple[int, int]:
    """That they are finite, not negative, and that those of a row are not all zero: two flags."""
    item = tensor.element_size()
    found = []
    for _ in range(2):  # the largest and the smallest
        found.append(device.allocate(item, call.name))
        copy = 0 if tensor.is_contiguous() else device.allocate(bytes_of(tensor), call.name)
        take_reduction_memory(device, tensor, None, item)
        device.free(copy)
        found.append(device.allocate(1, call.name))
    is_valid = device.allocate(1, call.name)
    for address in reversed(found):
        device.free(address)
    rows = tensor.numel() // tensor.size(-1)
    sums = device.allocate(rows * item, call.name)
    take_reduction_memory(device, tensor, [-1], item)
    zeros = device.allocate(rows, call.name) if tensor.dim() > 1 else 0
    has_zero = device.allocate(1, call.name)
    device.free(zeros)
    device.free(sums)
    device.temporary(1, call.name)
    return has_zero, is_valid


copies_inputs("searchsorted", inputs=(0, 1), after_results=True)
copies_inputs("bucketize", inputs=(0, 1), after_results=True)
