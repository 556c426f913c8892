"""Matrix products: the workspaces of cuBLAS and cuBLASLt, and copies of matrices that they refuse.

Each thread that computes with cuBLAS has a handle with a workspace per stream, which is kept until
the process ends.
"""

from __future__ import annotations

import threading
from typing import Any

import torch

from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.rules.copies import copies_inputs
from gpumemprof.estimate.rules.table import Call, rule
from gpumemprof.estimate.rules.tensors import is_on_card

__all__ = ["take_cublas_workspace", "take_cublaslt_workspace"]

HOPPER_WORKSPACE_BYTES = 32 << 20
OLDER_WORKSPACE_BYTES = 8320 << 10  # 4096 KiB twice and 16 KiB eight times
LT_WORKSPACE_BYTES = 1 << 20


def take_cublas_workspace(device: Device) -> None:
    size = HOPPER_WORKSPACE_BYTES if device.card.capability >= (9, 0) else OLDER_WORKSPACE_BYTES
    key = ("cublas", threading.get_ident(), device.stream)
    device.persistent(key, size, "cuBLAS workspace")


def take_cublaslt_workspace(device: Device) -> None:
    key = ("cublasLt", threading.get_ident(), device.stream)
    device.persistent(key, LT_WORKSPACE_BYTES, "cuBLASLt workspace")


def has_unit_stride(matrix: torch.Tensor) -> bool:
    """Whether cuBLAS can read the matrix: its rows or its columns are contiguous."""
    if matrix.dim() < 2:
        return True
    row_stride, column_stride = matrix.stride()[-2:]
    rows, columns = matrix.shape[-2:]
    return bool(
        (column_stride == 1 and row_stride >= max(1, columns))
        or (row_stride == 1 and column_stride >= max(1, rows))
        or rows == 1
        or columns == 1
    )


@rule("mm", "bmm", "baddbmm", "addbmm", "addmv", "mv", "dot", "_scaled_mm", certainty="exact")
def product(device: Device, call: Call, outputs: Any) -> None:
    if is_on_card(outputs):
        take_cublas_workspace(device)


@rule("addmm", certainty="exact")
def product_with_bias(device: Device, call: Call, outputs: Any) -> None:
    """A bias vector is added within the kernel by cuBLASLt, which has a workspace of its own."""
    if not is_on_card(outputs):
        return
    take_cublas_workspace(device)
    bias, _, right = call.args[:3]
    if (
        bias.dim() == 1
        and bias.is_contiguous()
        and right.size(0) > 1
        and right.size(1) > 1
        and outputs.is_contiguous()
    ):
        take_cublaslt_workspace(device)


copies_inputs("mm", "bmm", inputs=(0, 1), accepts=has_unit_stride)
copies_inputs("addmm", "baddbmm", inputs=(1, 2), accepts=has_unit_stride)
