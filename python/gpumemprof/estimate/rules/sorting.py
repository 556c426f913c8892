"""Sorts, scans and permutations."""

from __future__ import annotations

from typing import Any

from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.rules.copies import copies_inputs
from gpumemprof.estimate.rules.cub import radix_sort_bytes
from gpumemprof.estimate.rules.table import Call, rule
from gpumemprof.estimate.rules.tensors import bytes_of, divide_up, is_on_card

__all__: list[str] = []

INDEX_BYTES = 8
LARGEST_IN_PLACE = 4096
LARGE_SEGMENT = 1_000_000
MANY_SEGMENTS = 128


@rule("sort", certainty="fitted")
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
    key = tensor.element_size()
    copy = 0
    if tensor.stride(dimension) != 1:
        copy = device.allocate(bytes_of(tensor), call.name)
    count = tensor.numel()
    rows = count // length
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
        device.temporary(count * (key + INDEX_BYTES), call.name)
        device.free(numbers)
    device.free(copy)


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
    if call.name == "cumsum" and tensor.numel() == tensor.size(call.argument("dim", 0)):
        size = outputs.element_size()
        threads = 128 if size >= 16 else 256 if size >= 8 else 512
        blocks = divide_up(tensor.numel(), threads * 16)
        sizes.append(min(device.card.multiprocessors, blocks) * size)
    device.held(call.name, *sizes)


@rule("randperm", certainty="exact")
def random_permutation(device: Device, call: Call, outputs: Any) -> None:
    """Random keys are sorted together with the numbers."""
    if not is_on_card(outputs):
        return
    count = outputs.numel()
    device.temporary(INDEX_BYTES, call.name)
    sort_bytes = radix_sort_bytes(count, 4, outputs.element_size())
    device.held(call.name, bytes_of(outputs), count * 4, count * 4, sort_bytes)


@rule("multinomial", certainty="fitted")
def sample(device: Device, call: Call, outputs: Any) -> None:
    """Each probability is divided by a random number; the largest quotients win."""
    probabilities = call.args[0]
    if is_on_card(outputs):
        winners = outputs.numel() * probabilities.element_size() if outputs.size(-1) > 1 else 0
        device.held(call.name, bytes_of(probabilities), winners)


copies_inputs("searchsorted", inputs=(0, 1), after_results=True)
copies_inputs("bucketize", inputs=(0, 1), after_results=True)
