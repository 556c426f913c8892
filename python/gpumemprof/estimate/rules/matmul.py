"""Matrix products: the workspaces of cuBLAS and cuBLASLt, and copies of matrices that they refuse.

Each thread that computes with cuBLAS has a handle with a workspace per stream, which is kept until
the process ends.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import Any

import torch

from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.rules.copies import free_copies, take_copies
from gpumemprof.estimate.rules.table import Call, rule
from gpumemprof.estimate.rules.tensors import is_on_card

__all__ = ["take_cublas_workspace", "take_cublaslt_workspace"]

HOPPER_WORKSPACE_BYTES = 32 << 20
OLDER_WORKSPACE_BYTES = 8320 << 10  # 4096 KiB twice and 16 KiB eight times
LT_WORKSPACE_BYTES = 1 << 20


def configured_bytes(text: str) -> int | None:
    """The size in CUBLAS_WORKSPACE_CONFIG: pairs of a size in KiB and a count, as ":4096:8"."""
    numbers = [int(part) for part in text.split(":") if part.isdigit()]
    if not numbers or len(numbers) % 2:
        return None
    return sum(size * count for size, count in zip(numbers[::2], numbers[1::2])) << 10


def take_cublas_workspace(device: Device) -> None:
    size = configured_bytes(os.environ.get("CUBLAS_WORKSPACE_CONFIG", ""))
    if size is None:
        is_new = device.card.capability >= (9, 0)
        size = HOPPER_WORKSPACE_BYTES if is_new else OLDER_WORKSPACE_BYTES
    key = ("cublas", threading.get_ident(), device.stream)
    device.persistent(key, size, "cuBLAS workspace")


def take_cublaslt_workspace(device: Device) -> None:
    key = ("cublasLt", threading.get_ident(), device.stream)
    device.persistent(key, LT_WORKSPACE_BYTES, "cuBLASLt workspace")


def is_readable(matrix: torch.Tensor) -> bool:
    """Whether cuBLAS can read the matrix: its rows or its columns are contiguous."""
    if matrix.dim() < 2:
        return True
    row_stride, column_stride = matrix.stride()[-2:]
    rows, columns = matrix.shape[-2:]
    return bool(
        (column_stride == 1 and row_stride >= max(1, columns))
        or (row_stride == 1 and column_stride >= max(1, rows))
    )


def _multiply(device: Device, call: Call, matrices: Sequence[Any], has_bias: bool) -> None:
    if any(each.layout is not torch.strided for each in matrices):
        return  # another library computes it; see the rules of sparse products
    take_copies(device, call, matrices, is_readable)
    take_cublas_workspace(device)
    if has_bias:
        take_cublaslt_workspace(device)
    free_copies(device, call)


@rule("mm", "bmm", "mv", "dot", "vdot", "_int_mm", certainty="exact")
def product(device: Device, call: Call, outputs: Any) -> None:
    if is_on_card(outputs):
        _multiply(device, call, call.args[:2], has_bias=False)


@rule("baddbmm", "addbmm", "addmv", certainty="exact")
def product_and_sum(device: Device, call: Call, outputs: Any) -> None:
    if is_on_card(outputs):
        _multiply(device, call, call.args[1:3], has_bias=False)


@rule("_scaled_mm", certainty="exact")
def scaled_product(device: Device, call: Call, outputs: Any) -> None:
    if is_on_card(outputs):
        _multiply(device, call, call.args[:2], has_bias=True)


def adds_bias_within(call: Call, result: torch.Tensor) -> bool:
    """Whether cuBLASLt adds the bias within the kernel; it has a workspace of its own."""
    bias, _, right = call.args[:3]
    is_row = bias.dim() == 1 or (bias.dim() == 2 and bias.size(0) == 1)
    return bool(
        is_row
        and bias.is_contiguous()
        and bias.size(-1) == right.size(1)
        and min(right.shape) > 1
        and call.argument("beta", 1) == 1
        and not result.is_complex()
        and result.is_contiguous()
    )


@rule("addmm", "addmm_", "_addmm_activation", certainty="exact")
def product_with_bias(device: Device, call: Call, outputs: Any) -> None:
    if is_on_card(outputs):
        _multiply(device, call, call.args[1:3], adds_bias_within(call, outputs))


@rule("_grouped_mm", certainty="fitted")
def product_of_groups(device: Device, call: Call, outputs: Any) -> None:
    """One kernel for bfloat16 on Hopper and later, of which nothing is known; else, cuBLAS."""
    if not is_on_card(outputs):
        return
    if call.args[0].dtype == torch.bfloat16 and device.card.capability >= (9, 0):
        device.on_unknown(outputs, "_grouped_mm of bfloat16")
    else:
        take_cublas_workspace(device)
