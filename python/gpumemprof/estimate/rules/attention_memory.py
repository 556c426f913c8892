"""What the kernels of attention allocate beside their results."""

from __future__ import annotations

from typing import Any

import torch

from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.rules.births import born_in_order
from gpumemprof.estimate.rules.table import Call, rule
from gpumemprof.estimate.rules.tensors import divide_up, is_on_card, round_up

__all__: list[str] = []

born_in_order("_scaled_dot_product_efficient_attention", order=(0, 1), not_on_card=(2, 3))
born_in_order("_scaled_dot_product_cudnn_attention", order=(6, 7, 0, 1))

CUDNN_WORKSPACE_BYTES = 256


@rule("_scaled_dot_product_cudnn_attention", certainty="exact")
def cudnn_forward(device: Device, call: Call, outputs: Any) -> None:
    device.temporary(CUDNN_WORKSPACE_BYTES, call.name)


@rule("_scaled_dot_product_cudnn_attention_backward", certainty="exact")
def cudnn_backward(device: Device, call: Call, outputs: Any) -> None:
    """The gradient of the query in single precision, and the sums of rows."""
    batch, heads, rows, size = call.args[1].shape
    device.temporary(batch * heads * rows * (size * 4 + 4) + CUDNN_WORKSPACE_BYTES, call.name)


@rule("_scaled_dot_product_flash_attention_backward", certainty="exact")
def flash_backward(device: Device, call: Call, outputs: Any) -> None:
    """Sums of rows and the gradient of the query, both in single precision and padded."""
    batch, heads, rows, size = call.args[1].shape
    padded_rows = round_up(rows, 128)
    padded_size = round_up(size, 32)
    device.held(
        call.name,
        batch * heads * padded_rows * 4,
        batch * heads * padded_rows * padded_size * 4,
    )


@rule("_scaled_dot_product_efficient_attention_backward", certainty="exact", hook="births")
def efficient_backward(device: Device, call: Call, outputs: Any) -> None:
    """The row sums of gradient times result come first, then the kernel's own workspace."""
    grad, query = call.args[0], call.args[1]
    result = call.args[5]
    for gradient in outputs[:3]:
        device.births(gradient, call.name)
    batch, heads, rows, size = query.shape
    copies = []
    if query.dtype != torch.float32:
        copies = [device.allocate(t.numel() * 4, call.name) for t in (grad, result)]
    product = device.allocate(grad.numel() * 4, call.name)
    sums = device.allocate(batch * heads * rows * 4, call.name)
    delta = device.allocate(batch * heads * rows * 4, call.name)
    for address in (sums, product, *reversed(copies)):
        device.free(address)
    if is_on_card(outputs[3]):
        device.births(outputs[3], call.name)
    block = 64
    padded_size = round_up(size, 64) if size > 32 else 32
    blocks = batch * heads * divide_up(rows, block)
    device.temporary(blocks * (16 + block * padded_size * 4), call.name)
    device.free(delta)
    device.births(outputs, call.name)
