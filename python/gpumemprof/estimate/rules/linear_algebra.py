"""Decompositions and solutions of linear systems: copies of matrices and workspaces of cuSOLVER.

The sizes of cuSOLVER's workspaces are those of CUDA 13 on Hopper.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.rules.matmul import take_cublas_workspace
from gpumemprof.estimate.rules.table import Call, rule
from gpumemprof.estimate.rules.tensors import bytes_of, divide_up, is_on_card, round_up

__all__: list[str] = []

POINTER_BYTES = 8
INFO_BYTES = 4
TILE = 32


def batch_of(matrix: torch.Tensor) -> int:
    return math.prod(matrix.shape[:-2])


def _hold(device: Device, call: Call, *sizes: int) -> list[int]:
    return [device.allocate(size, call.name) for size in sizes]


def _free(device: Device, addresses: list[int]) -> None:
    for address in reversed(addresses):
        device.free(address)


@rule("_linalg_check_errors", certainty="exact")
def check_errors(device: Device, call: Call, outputs: Any) -> None:
    if is_on_card(call.args[0]):
        device.held(call.name, *([1] if call.args[0].dim() else [1, 1]))


# Cholesky


def potrf_bytes(size: int, is_upper: bool, item: int) -> int:
    if is_upper:
        return 256 if item == 4 else 384
    return round_up(4 * divide_up(size, TILE) ** 2, 32) + 128


@rule("linalg_cholesky_ex", certainty="exact")
def cholesky(device: Device, call: Call, outputs: Any) -> None:
    matrix = call.args[0]
    if not is_on_card(matrix):
        return
    if matrix.dim() > 2:
        device.temporary(POINTER_BYTES * batch_of(matrix), call.name)
    else:
        is_upper = bool(call.argument("upper", False))
        device.temporary(potrf_bytes(matrix.size(-1), is_upper, matrix.element_size()), call.name)


@rule("cholesky_solve", certainty="exact", hook="births")
def cholesky_solve(device: Device, call: Call, outputs: Any) -> None:
    """The factor is copied, whatever its layout."""
    factor = call.args[1]
    if not is_on_card(outputs):
        device.births(outputs, call.name)
        return
    info = 0 if batch_of(outputs) > 1 else device.allocate(INFO_BYTES, call.name)
    device.births(outputs, call.name)
    device.temporary(batch_of(outputs) * factor.size(-1) ** 2 * factor.element_size(), call.name)
    device.free(info)


@rule("cholesky_inverse", certainty="exact")
def cholesky_inverse(device: Device, call: Call, outputs: Any) -> None:
    if is_on_card(outputs):
        info = [] if batch_of(outputs) > 1 else [INFO_BYTES]
        device.held(call.name, bytes_of(outputs), *info)


# Triangular systems and LU


def take_triangular_pointers(device: Device, call: Call, matrix: torch.Tensor, batch: int) -> None:
    """Small or many systems are solved together, with lists of pointers."""
    take_cublas_workspace(device)
    if batch > 8 or matrix.size(-1) < 64:
        device.held(call.name, POINTER_BYTES * batch, POINTER_BYTES * batch)


@rule("linalg_solve_triangular", certainty="exact")
def solve_triangular(device: Device, call: Call, outputs: Any) -> None:
    if is_on_card(outputs):
        take_triangular_pointers(device, call, call.args[0], batch_of(outputs))


GETRF_BYTES = (
    (33, 1280),
    (100, 2304),
    (200, 4096),
    (300, 6912),
    (512, 8448),
    (1000, 12544),
    (2048, 52480),
    (4096, 98560),
)
LARGEST_BATCHED = 128


def getrf_bytes(size: int) -> int:
    """Measured, and in between in proportion."""
    before = GETRF_BYTES[0]
    for entry in GETRF_BYTES:
        if size <= entry[0]:
            if entry is before:
                return entry[1]
            share = (size - before[0]) / (entry[0] - before[0])
            return int(before[1] + share * (entry[1] - before[1]))
        before = entry
    return before[1] * size // before[0]


def take_factorization(device: Device, call: Call, matrix: torch.Tensor) -> None:
    batch = batch_of(matrix)
    if batch == 1:
        device.temporary(getrf_bytes(matrix.size(-1)), call.name)
    elif matrix.size(-1) <= LARGEST_BATCHED:
        take_cublas_workspace(device)
        device.temporary(POINTER_BYTES * batch, call.name)


def take_solution(device: Device, call: Call, matrix: torch.Tensor, right: torch.Tensor) -> None:
    """The rows of the right side are exchanged in a copy; pivots become a permutation first."""
    size, batch = matrix.size(-1), batch_of(matrix)
    take_cublas_workspace(device)
    if batch > 1 and size <= 16:
        device.held(call.name, POINTER_BYTES * batch, POINTER_BYTES * batch)
        return
    row = 8 * size
    rows = [row, row, row] if batch == 1 else [row, row * batch]
    held = _hold(device, call, *rows, bytes_of(right))
    take_triangular_pointers(device, call, matrix, batch)
    take_triangular_pointers(device, call, matrix, batch)
    _free(device, held)


@rule("linalg_lu_factor_ex", certainty="fitted")
def lu_factor(device: Device, call: Call, outputs: Any) -> None:
    if is_on_card(outputs[0]):
        take_factorization(device, call, outputs[0])


@rule("linalg_lu_solve", certainty="fitted")
def lu_solve(device: Device, call: Call, outputs: Any) -> None:
    if is_on_card(outputs):
        take_solution(device, call, call.args[0], outputs)


@rule("_linalg_solve_ex", certainty="fitted")
def solve(device: Device, call: Call, outputs: Any) -> None:
    if is_on_card(outputs[0]):
        take_factorization(device, call, outputs[1])
        take_solution(device, call, outputs[1], outputs[0])


@rule("linalg_inv_ex", certainty="fitted")
def inverse(device: Device, call: Call, outputs: Any) -> None:
    """The inverse solves the system of the identity."""
    if not is_on_card(outputs[0]):
        return
    matrix = outputs[0]
    pivots = 4 * batch_of(matrix) * matrix.size(-1)
    held = _hold(device, call, bytes_of(matrix), pivots)
    take_factorization(device, call, matrix)
    take_solution(device, call, matrix, matrix)
    _free(device, held)


@rule("_linalg_det", "_linalg_slogdet", certainty="fitted")
def determinant(device: Device, call: Call, outputs: Any) -> None:
    """The sign follows from the pivots."""
    matrix = call.args[0]
    if not is_on_card(matrix):
        return
    batch, size = batch_of(matrix), matrix.size(-1)
    info = device.allocate(INFO_BYTES * batch, call.name)
    take_factorization(device, call, matrix)
    device.held(call.name, 4 * size, batch * size, 8 * batch, 8 * batch * size)
    device.free(info)


@rule("linalg_lu", certainty="fitted")
def lu(device: Device, call: Call, outputs: Any) -> None:
    matrix = call.args[0]
    if not is_on_card(matrix):
        return
    batch, size = batch_of(matrix), matrix.size(-1)
    held = _hold(device, call, bytes_of(matrix), 4 * batch * size, INFO_BYTES * batch)
    take_factorization(device, call, matrix)
    device.free(held.pop(0))
    device.temporary(8 * batch * size, call.name)
    _free(device, held)


@rule("lu_unpack", certainty="fitted")
def lu_unpack(device: Device, call: Call, outputs: Any) -> None:
    if is_on_card(call.args[0]):
        batch, size = batch_of(call.args[0]), call.args[0].size(-1)
        device.held(call.name, *([8 * size] if batch == 1 else [8 * size, 8 * batch * size]))


@rule("linalg_ldl_factor_ex", certainty="fitted")
def ldl(device: Device, call: Call, outputs: Any) -> None:
    if is_on_card(outputs[0]):
        size = outputs[0].size(-1) * outputs[0].element_size()
        device.temporary(max(98432, 64 * size + 256), call.name)


# Orthogonal decompositions


def geqrf_bytes(columns: int, item: int) -> int:
    return item * ((1 << 19) + 1024 * max(columns, 256)) + 128


def orgqr_bytes(columns: int, reflections: int, item: int) -> int:
    return item // 4 * (66560 + 12 * min(reflections, 128) * columns)


def loops_over_matrices(batch: int, rows: int) -> bool:
    return batch == 1 or rows > 256


@rule("linalg_qr", certainty="fitted")
def qr(device: Device, call: Call, outputs: Any) -> None:
    """Factors of the reflections, and workspaces that are taken for each matrix."""
    matrix = call.args[0]
    if not is_on_card(matrix):
        return
    batch, item = batch_of(matrix), matrix.element_size()
    rows, columns = matrix.shape[-2:]
    reflections = min(rows, columns)
    factors = device.allocate(batch * reflections * item, call.name)
    if loops_over_matrices(batch, rows):
        info = device.allocate(INFO_BYTES, call.name)
        for _ in range(batch):
            device.temporary(geqrf_bytes(columns, item), call.name)
        device.free(info)
    else:
        device.held(call.name, POINTER_BYTES * batch, POINTER_BYTES * batch)
    if is_on_card(outputs[0]):
        info = device.allocate(INFO_BYTES, call.name)
        for _ in range(batch):
            device.temporary(orgqr_bytes(outputs[0].size(-1), reflections, item), call.name)
        device.free(info)
    device.free(factors)


def svd_bytes(rows: int, columns: int, item: int) -> int:
    if rows == columns:
        return item * (2 * rows * rows + 73 * rows)
    longest = max(rows, columns)
    return max(geqrf_bytes(min(rows, columns), item) + 512, item * 264 * longest)


@rule("_linalg_svd", certainty="fitted", hook="births")
def svd(device: Device, call: Call, outputs: Any) -> None:
    matrix = call.args[0]
    if not is_on_card(matrix):
        device.births(outputs, call.name)
        return
    for place in (0, 2, 1):
        device.births(outputs[place], call.name)
    rows, columns = matrix.shape[-2:]
    size = svd_bytes(rows, columns, matrix.element_size())
    device.held(call.name, INFO_BYTES * batch_of(matrix), bytes_of(matrix), size)


def eigh_bytes(matrix: torch.Tensor) -> int:
    size, batch = int(matrix.size(-1)), batch_of(matrix)
    item = int(matrix.element_size())
    if batch > 1 and size <= TILE:  # many small matrices at once
        return batch * item // 4 * (261_600 + 3300 * size)
    if item == 4 and size <= 512:
        return item * size * size + 160 * size + 5000
    return item * (4 * size * size + 160 * size) + (1 << 20 if item == 8 else 0)


@rule("_linalg_eigh", certainty="fitted", hook="births")
def eigh(device: Device, call: Call, outputs: Any) -> None:
    """The vectors are computed in a copy of the matrix, even where only the values are wanted."""
    matrix = call.args[0]
    if not is_on_card(matrix):
        device.births(outputs, call.name)
        return
    copy = 0
    if is_on_card(outputs[1]):
        device.births(outputs[1], call.name)
    else:
        copy = device.allocate(bytes_of(matrix), call.name)
    device.births(outputs[0], call.name)
    device.held(call.name, INFO_BYTES * batch_of(matrix), eigh_bytes(matrix))
    device.free(copy)


LARGE_EIG = 512


@rule("linalg_eig", certainty="fitted", hook="before")
def eig(device: Device, call: Call) -> None:
    """Computed with copies of the matrix, before the results are there."""
    matrix = call.args[0]
    if not is_on_card(matrix):
        return
    size = bytes_of(matrix)
    masks = matrix.numel()
    device.held(call.name, size, masks, masks, masks)
    complex_bytes = size if matrix.is_complex() else 2 * size
    rows = matrix.size(-1)
    more = 131072 if rows < LARGE_EIG else 16 * rows
    work = matrix.element_size() // 4 * (4 * rows * rows + more)
    device.held(call.name, complex_bytes, size, 0 if matrix.is_complex() else size, work)


@rule("linalg_lstsq", certainty="fitted")
def least_squares(device: Device, call: Call, outputs: Any) -> None:
    matrix = call.args[0]
    if not is_on_card(matrix):
        return
    batch = batch_of(matrix)
    held = _hold(device, call, bytes_of(matrix), matrix.size(-1) * matrix.element_size())
    if loops_over_matrices(batch, matrix.size(-2)):
        device.temporary(geqrf_bytes(matrix.size(-1), matrix.element_size()), call.name)
    else:
        device.temporary(bytes_of(matrix), call.name)
    _free(device, held)


@rule("linalg_pinv", certainty="fitted")
def pseudo_inverse(device: Device, call: Call, outputs: Any) -> None:
    """Singular or eigenvalues, and their vectors."""
    matrix = call.args[0]
    if not is_on_card(matrix):
        return
    size = bytes_of(matrix)
    if call.argument("hermitian", False):
        device.held(call.name, size, max(size, eigh_bytes(matrix)))
        return
    rows, columns = matrix.shape[-2:]
    size_of_work = svd_bytes(rows, columns, matrix.element_size())
    device.held(call.name, size, size * min(rows, columns) // max(rows, columns), size_of_work)


@rule("linalg_matrix_exp", certainty="fitted")
def matrix_exponential(device: Device, call: Call, outputs: Any) -> None:
    """The powers of a Taylor series, stacked twice: five of a matrix of usual size."""
    if is_on_card(outputs) and outputs.size(-1) > 1:
        size = bytes_of(outputs)
        held = _hold(device, call, *([size] * 2 if batch_of(outputs) == 1 else []))
        device.held(call.name, 5 * size, 5 * size)
        _free(device, held)


# Distances


@rule("_euclidean_dist", certainty="exact", hook="births")
def euclidean_distance(device: Device, call: Call, outputs: Any) -> None:
    """One product of matrices that have the squared norms as additional columns."""
    if not is_on_card(outputs):
        device.births(outputs, call.name)
        return
    norms: list[int] = []
    for points in call.args[:2]:
        rows = bytes_of(points) // points.size(-1)
        squares, norm = _hold(device, call, bytes_of(points), rows)
        device.free(squares)
        norms += [norm, *_hold(device, call, rows)]
    sides: list[int] = []
    for points in call.args[:2]:
        rows = bytes_of(points) // points.size(-1)
        scaled = _hold(device, call, bytes_of(points)) if not sides else []
        sides += _hold(device, call, bytes_of(points) + 2 * rows)
        for address in (norms[1], norms[0], *scaled) if len(sides) == 1 else norms[2:]:
            device.free(address)
    device.births(outputs, call.name)
    take_cublas_workspace(device)
    _free(device, sides)


@rule("_pdist_backward", certainty="exact", hook="births")
def list_of_distances_backward(device: Device, call: Call, outputs: Any) -> None:
    """The gradient of each pair, for each of its points."""
    if is_on_card(outputs):
        pairs = device.allocate(bytes_of(outputs) * (outputs.size(0) - 1), call.name)
        device.births(outputs, call.name)
        device.free(pairs)
    else:
        device.births(outputs, call.name)
