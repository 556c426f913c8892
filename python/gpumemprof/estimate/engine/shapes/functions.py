"""Shapes of what CUDA kernels return for which torch itself has no shape function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable

import torch

__all__ = ["MADE_OF_OPERATIONS", "SHAPE_FUNCTIONS", "weight_elements"]

ShapeFunction = Callable[..., Any]
SHAPE_FUNCTIONS: dict[str, ShapeFunction] = {}


def _shapes(name: str) -> Callable[[ShapeFunction], ShapeFunction]:
    def register(function: ShapeFunction) -> ShapeFunction:
        SHAPE_FUNCTIONS[name] = function
        return function

    return register


def _like(tensor: Any) -> Any:
    return None if tensor is None else torch.empty_like(tensor)


# Fused cells of recurrent networks (ATen/native/cuda/RNN.cu)


@_shapes("_thnn_fused_lstm_cell")
def _lstm_cell(
    input_gates: torch.Tensor,
    hidden_gates: torch.Tensor,
    cx: torch.Tensor,
    input_bias: Any = None,
    hidden_bias: Any = None,
) -> Any:
    workspace = torch.empty_like(input_gates)
    return torch.empty_like(cx), torch.empty_like(cx), workspace


@_shapes("_thnn_fused_lstm_cell_backward_impl")
def _lstm_cell_backward(
    grad_hy: Any,
    grad_cy: Any,
    cx: torch.Tensor,
    cy: torch.Tensor,
    workspace: torch.Tensor,
    has_bias: bool,
) -> Any:
    gates = torch.empty_like(workspace)
    bias = gates.new_empty((gates.shape[1],)) if has_bias else None
    return gates, torch.empty_like(cx), bias


@_shapes("_thnn_fused_gru_cell")
def _gru_cell(
    input_gates: torch.Tensor,
    hidden_gates: torch.Tensor,
    hx: torch.Tensor,
    input_bias: Any = None,
    hidden_bias: Any = None,
) -> Any:
    workspace = hx.new_empty((hx.shape[0], hx.shape[1] * 5))
    return torch.empty_like(hx), workspace


@_shapes("_thnn_fused_gru_cell_backward")
def _gru_cell_backward(grad_hy: torch.Tensor, workspace: torch.Tensor, has_bias: bool) -> Any:
    rows, hidden = grad_hy.shape
    gates = [workspace.new_empty((rows, hidden * 3)) for _ in range(2)]
    grad_hx = torch.empty_like(grad_hy)
    biases = [workspace.new_empty((hidden * 3,)) if has_bias else None for _ in range(2)]
    return gates[0], gates[1], grad_hx, biases[0], biases[1]


# Products of groups (ATen/native/cuda/GroupedBlas.cpp): torch's shape function knows bfloat16 alone


@_shapes("_grouped_mm")
def _grouped_product(
    one: torch.Tensor,
    other: torch.Tensor,
    offs: Any = None,
    bias: Any = None,
    out_dtype: Any = None,
) -> Any:
    if one.dtype not in (torch.float16, torch.float32) or other.dtype != one.dtype:
        return NotImplemented
    flat = (one.dim() == 2, other.dim() == 2)
    if flat == (True, True):
        shape = [offs.shape[0], one.shape[0], other.shape[1]]
    elif flat == (True, False):
        shape = [one.shape[0], other.shape[-1]]
    elif flat == (False, True):
        shape = [one.shape[1], other.shape[1]]
    else:
        shape = [one.shape[0], one.shape[1], other.shape[-1]]
    # Rows begin at multiples of 16 bytes.
    elements = 16 // one.element_size()
    row = -(-shape[-1] // elements) * elements
    strides = [row, 1] if len(shape) == 2 else [shape[1] * row, row, 1]
    return one.new_empty_strided(shape, strides, dtype=out_dtype or one.dtype)


# cuDNN's recurrent networks. The size of the reserve space is a rule.


@_shapes("_cudnn_rnn")
def _cudnn_rnn(
    x: torch.Tensor,
    weight: Sequence[torch.Tensor],
    weight_stride0: int,
    weight_buf: Any,
    hx: torch.Tensor,
    cx: Any,
    mode: int,
    hidden_size: int,
    proj_size: int,
    num_layers: int,
    batch_first: bool,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_sizes: Sequence[int],
    dropout_state: Any,
) -> Any:
    directions = 2 if bidirectional else 1
    width = (proj_size or hidden_size) * directions
    output = _steps_first(x, width, batch_first and not batch_sizes)
    cell = torch.empty_like(cx) if cx is not None else x.new_empty((0,))
    reserve = torch.empty(1 if train else 0, dtype=torch.uint8, device=x.device)
    weights = weight_buf if weight_buf is not None else x.new_empty((weight_elements(weight),))
    return output, torch.empty_like(hx), cell, reserve, weights


def _steps_first(x: torch.Tensor, width: int, batch_first: bool) -> torch.Tensor:
    """cuDNN's results have the steps first; torch turns them around."""
    if not batch_first:
        return x.new_empty((*x.shape[:-1], width))
    return x.new_empty((x.shape[1], x.shape[0], width)).transpose(0, 1)


def weight_elements(weights: Sequence[torch.Tensor]) -> int:
    """Elements of cuDNN's buffer, which has two biases for each gate even if torch has none."""
    elements: int = sum(each.numel() for each in weights)
    if any(each.dim() == 1 for each in weights):
        return elements
    rows: list[int] = [each.shape[0] for each in weights]
    gates = max(rows)  # a projection has fewer rows
    return elements + gates * 2 * (rows.count(gates) // 2)


@_shapes("_cudnn_rnn_backward")
def _cudnn_rnn_backward(
    x: torch.Tensor,
    weight: Sequence[torch.Tensor],
    weight_stride0: int,
    weight_buf: torch.Tensor,
    hx: torch.Tensor,
    cx: Any,
    *more: Any,
) -> Any:
    batch_first, batch_sizes, mask = more[8], more[12], more[15]
    grad_x = _steps_first(x, x.shape[-1], batch_first and not batch_sizes)
    if not mask[3]:
        grads = [None] * len(weight)
    elif any(each.dim() == 1 for each in weight):
        # All gradients of the weights are parts of one buffer.
        buffer = x.new_empty((sum(each.numel() for each in weight),))
        parts = buffer.split([each.numel() for each in weight])
        grads = [part.view(each.shape) for part, each in zip(parts, weight)]
    else:
        grads = [torch.empty_like(each) for each in weight]
    return grad_x, _like(hx), _like(cx), grads


@_shapes("_cudnn_rnn_flatten_weight")
def _cudnn_rnn_flatten_weight(weights: Sequence[torch.Tensor], *_: Any, **__: Any) -> Any:
    """Copies all weights into one buffer and makes them parts of it."""
    buffer = weights[0].new_empty((weight_elements(weights),))
    start = 0
    for each in weights:
        part = buffer[start : start + each.numel()].view(each.shape)
        torch.ops.aten.set_.source_Tensor(each, part)
        start += each.numel()
    return buffer


# Their operations are seen by the engine one by one.
MADE_OF_OPERATIONS = frozenset(("_cudnn_rnn_flatten_weight", "affine_grid_generator"))


@_shapes("_cudnn_init_dropout_state")
def _cudnn_dropout_state(dropout: float, train: bool, seed: int, **options: Any) -> Any:
    options.pop("pin_memory", None)
    return torch.empty((0,), **options)


# Connectionist temporal classification (ATen/native/cuda/LossCTC.cu, ATen/native/cudnn/LossCTC.cpp)


def _lengths(value: Any) -> list[int]:
    return [int(each) for each in (value.tolist() if isinstance(value, torch.Tensor) else value)]


@_shapes("_use_cudnn_ctc_loss")
def _use_cudnn_ctc_loss(
    log_probs: torch.Tensor, targets: torch.Tensor, inputs: Any, lengths: Any, blank: int
) -> bool:
    if not torch.backends.cudnn.enabled or blank != 0 or targets.dim() != 1:
        return False
    if log_probs.dtype != torch.float32 or targets.dtype != torch.int32:
        return False
    if targets.device.type != "cpu" or not targets.is_contiguous():
        return False
    steps = _lengths(inputs)
    return all(each == log_probs.shape[0] for each in steps) and all(
        target < 256 and target <= most for target, most in zip(_lengths(lengths), steps)
    )


@_shapes("_use_miopen_ctc_loss")
def _use_miopen_ctc_loss(*_: Any) -> bool:
    return False


@_shapes("_cudnn_ctc_loss")
def _cudnn_ctc_loss(log_probs: torch.Tensor, targets: Any, *_: Any, **__: Any) -> Any:
    batch = log_probs.shape[1]
    return log_probs.new_empty((batch,)), torch.empty_like(log_probs)


@_shapes("_ctc_loss")
def _ctc_loss(
    log_probs: torch.Tensor, targets: torch.Tensor, inputs: Any, lengths: Any, *_: Any, **__: Any
) -> Any:
    steps, batch = log_probs.shape[:2]
    longest = max(_lengths(lengths), default=0)
    if not longest and targets.dim() == 2:
        longest = targets.shape[1]
    alpha = log_probs.new_empty((batch, steps, 2 * longest + 1))
    return log_probs.new_empty((batch,)), alpha


@_shapes("_ctc_loss_backward")
def _ctc_loss_backward(grad: torch.Tensor, log_probs: torch.Tensor, *_: Any, **__: Any) -> Any:
    return torch.empty_like(log_probs, memory_format=torch.contiguous_format)


@_shapes("_softmax_backward_data")
@_shapes("_log_softmax_backward_data")
def _softmax_backward(
    grad: torch.Tensor, output: torch.Tensor, dim: int, dtype: torch.dtype
) -> torch.Tensor:
    """Contiguous, whatever the gradient's layout."""
    return torch.empty(grad.shape, dtype=dtype, device=grad.device)


@_shapes("_pin_memory")
def _pin_memory(tensor: torch.Tensor, device: Any = None) -> Any:
    return torch.empty_like(tensor)


# Sampling at the points of a grid (ATen/native/cudnn/GridSampler.cpp, AffineGridGenerator.cpp)


@_shapes("cudnn_grid_sampler")
def _cudnn_grid_sampler(x: torch.Tensor, grid: torch.Tensor) -> Any:
    return x.new_empty((*x.shape[:2], *grid.shape[1:3]))


@_shapes("cudnn_grid_sampler_backward")
def _cudnn_grid_sampler_backward(x: torch.Tensor, grid: torch.Tensor, grad: torch.Tensor) -> Any:
    """cuDNN always computes both gradients."""
    return x.new_empty(x.shape), grid.new_empty(grid.shape)


@_shapes("affine_grid_generator")
def _affine_grid_generator(theta: torch.Tensor, size: Sequence[int], align_corners: bool) -> Any:
    """The coordinates of all points, and 1, times each image's matrix."""
    images, places = size[0], list(size[2:])
    dims = len(places)
    points = theta.new_empty((images, *places, dims + 1))
    for dim, count in enumerate(places):
        line = torch.linspace(-1, 1, count, dtype=theta.dtype, device=theta.device)
        if not align_corners:
            line = line * ((count - 1) / count)
        shape = [-1 if each == dim else 1 for each in range(dims)]
        points.select(-1, dims - 1 - dim).copy_(line.view(shape))
        del line
    points.select(-1, dims).fill_(1)
    grid = points.view(images, -1, dims + 1).bmm(theta.transpose(1, 2))
    return grid.view(images, *places, dims)
