"""What the kernels of attention allocate beside their results."""

from __future__ import annotations

import math
from typing import Any

import torch

from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.rules.births import born_in_order
from gpumemprof.estimate.rules.copies import free_copies, take_copies
from gpumemprof.estimate.rules.table import Call, rule
from gpumemprof.estimate.rules.tensors import bytes_of, divide_up, is_half, is_on_card, round_up

__all__: list[str] = []

FLOAT_BYTES = 4
CUDNN_WORKSPACE_BYTES = 256
CUDNN_ALIGNMENT = 128

born_in_order("_scaled_dot_product_efficient_attention", order=(0, 1), not_on_card=(2, 3))


@rule("_scaled_dot_product_cudnn_attention", certainty="exact", hook="births")
def cudnn_births(device: Device, call: Call, outputs: Any) -> None:
    """The state of the random numbers first; the sums of the rows only for a backward pass."""
    device.births((outputs[6], outputs[7], outputs[0]), call.name)
    if not call.argument("compute_log_sumexp", True):
        device.not_there(outputs[1])
    device.births(outputs, call.name)


@rule("_scaled_dot_product_cudnn_attention", certainty="exact")
def cudnn_forward(device: Device, call: Call, outputs: Any) -> None:
    if call.args[0].size(2) > 1:
        device.temporary(CUDNN_WORKSPACE_BYTES, call.name)


@rule("_scaled_dot_product_cudnn_attention_backward", certainty="exact")
def cudnn_backward(device: Device, call: Call, outputs: Any) -> None:
    """The gradient of the query in single precision, and the sums of its rows.

    Grouped heads: also the gradients of key and value for each head of the query.
    """
    query, key = call.args[1], call.args[2]
    batch, heads, rows, size = query.shape
    total = batch * heads * rows * (size + 1) * FLOAT_BYTES + CUDNN_WORKSPACE_BYTES
    if key.size(1) != heads:
        expanded = batch * heads * key.size(2) * size * query.element_size()
        total += 2 * round_up(expanded, CUDNN_ALIGNMENT)
    device.temporary(total, call.name)


@rule("_scaled_dot_product_flash_attention", certainty="exact", hook="births")
def flash_forward(device: Device, call: Call, outputs: Any) -> None:
    """Few queries: the keys are split, and the partial results are combined.

    Dropout replaces the state of the random numbers that was allocated first.
    """
    device.births(outputs[:2], call.name)
    has_dropout = call.argument("dropout_p", 0.0) > 0
    sizes = () if has_dropout else flash_split_sizes(call.args[0], call.args[1], device)
    splits = [device.allocate(size, call.name) for size in sizes]
    if has_dropout and is_on_card(outputs[6]):
        state = device.allocate(bytes_of(outputs[6]), call.name)
        device.births(outputs[7], call.name)
        device.births(outputs[6], call.name)
        device.free(state)
    device.births(outputs, call.name)
    for address in splits:
        device.free(address)


def flash_split_sizes(query: torch.Tensor, key: torch.Tensor, device: Device) -> tuple[int, ...]:
    """The sums and the results of the splits; none where the queries fill the card."""
    batch, heads, rows, size = query.shape
    if rows == 1 and heads > key.size(1):
        heads, rows = key.size(1), heads // key.size(1)
    block_keys = 256 if size <= 64 else 128 if size <= 128 else 64
    key_blocks = divide_up(key.size(2), block_keys)
    work = batch * heads * divide_up(rows, 64)
    splits = flash_splits(work, 2 * device.card.multiprocessors, key_blocks)
    if splits == 1:
        return ()
    padded_size = round_up(size, 32) if size <= 192 else 256
    sums = splits * batch * heads * rows * FLOAT_BYTES
    return sums, sums * padded_size


def flash_splits(work: int, places: int, key_blocks: int) -> int:
    """The fewest splits that keep the card nearly as busy as the best number of splits does."""
    if work >= 0.8 * places:
        return 1
    most = min(128, places, key_blocks)

    def is_useful(splits: int) -> bool:
        return splits == 1 or divide_up(key_blocks, splits) != divide_up(key_blocks, splits - 1)

    efficiency = {}
    for splits in filter(is_useful, range(1, most + 1)):
        waves = work * splits / places
        efficiency[splits] = waves / math.ceil(waves)
    best = max(efficiency.values())
    return next(splits for splits, value in efficiency.items() if value >= 0.85 * best)


@rule("_scaled_dot_product_flash_attention_backward", certainty="exact")
class FlashBackward:
    """Sums of rows and the gradient of the query, both in single precision and padded."""

    @staticmethod
    def before(device: Device, call: Call) -> None:
        take_copies(device, call, (call.args[0], call.args[4]), _is_sequence_first)

    @staticmethod
    def after(device: Device, call: Call, outputs: Any) -> None:
        query, key = call.args[1], call.args[2]
        batch, heads, rows, size = query.shape
        padded_rows = round_up(rows, 128)
        padded_size = round_up(size, 32)
        sizes = [
            batch * heads * padded_rows * FLOAT_BYTES,
            batch * heads * padded_rows * padded_size * FLOAT_BYTES,
        ]
        if key.size(1) != heads:
            sizes += [batch * heads * key.size(2) * size * query.element_size()] * 2
        device.held(call.name, *sizes)
        free_copies(device, call)


def _is_sequence_first(tensor: torch.Tensor) -> bool:
    """Laid out by batch, position and head, as the kernel reads it."""
    return bool(tensor.transpose(1, 2).is_contiguous())


@rule("_scaled_dot_product_efficient_attention", certainty="exact")
def efficient_forward(device: Device, call: Call, outputs: Any) -> None:
    """Large heads are accumulated in single precision."""
    if is_half(outputs[0]) and outputs[0].size(-1) > 128:
        device.temporary(outputs[0].numel() * FLOAT_BYTES, call.name)


@rule("_scaled_dot_product_efficient_attention_backward", certainty="exact", hook="births")
def efficient_backward(device: Device, call: Call, outputs: Any) -> None:
    """Row sums of gradient times result, which half-precision kernels compute themselves."""
    grad, query, key = call.args[:3]
    take_copies(device, call, (grad,), _is_sequence_first)
    device.births(outputs[:3], call.name)
    if is_on_card(outputs[3]):  # the mask's, with rows as long as the padded mask's
        elements = outputs[3].numel() // outputs[3].size(-1) * outputs[3].stride(-2)
        device.birth_sized(outputs[3], elements * outputs[3].element_size(), call.name)
    batch, heads, rows, _ = query.shape
    sums_bytes = batch * heads * rows * FLOAT_BYTES
    if is_half(query):
        sums = device.allocate(sums_bytes, call.name)
    else:
        product = device.allocate(grad.numel() * FLOAT_BYTES, call.name)
        sums = device.allocate(sums_bytes, call.name)
        if rows > 1 and heads > 1:
            by_position, sums = sums, device.allocate(sums_bytes, call.name)
            device.free(by_position)
        device.free(product)
    workspace = device.allocate(efficient_workspace(query, key), call.name)
    device.free(sums)
    device.free(workspace)
    device.births(outputs, call.name)
    free_copies(device, call)


def efficient_workspace(query: torch.Tensor, key: torch.Tensor) -> int:
    """Partial gradients of the query, and with large half-precision heads of key and value.

    The sizes of the blocks are those of AttentionBackwardKernel in mem_eff_attention.
    """
    batch, heads, rows, size = query.shape
    block_rows = 64 if size <= 64 else 128
    columns = 128 if is_half(query) and 64 < size <= 128 else 64
    counter_bytes = 16
    blocks = divide_up(rows, block_rows) * divide_up(size, columns)
    elements = blocks * (block_rows * columns * FLOAT_BYTES + counter_bytes) // FLOAT_BYTES
    if is_half(query) and size > 128:
        block_keys = 64
        splits = divide_up(key.size(2), block_keys)
        if batch * heads >= 256 and key.size(2) <= 2 * block_keys:
            splits = 1
        splits = max(1, min(splits, 200 // (batch * heads)))
        elements += 2 * splits * block_keys * round_up(size, block_rows)
    return int(batch * heads * round_up(elements, 4) * FLOAT_BYTES)
