"""Recurrent networks: torch asks the driver whether cuDNN computes them; on a card it does."""

from __future__ import annotations

import importlib
from typing import Any, Callable

import torch

from gpumemprof.estimate.engine.shapes.functions import weight_elements
from gpumemprof.estimate.patches.patcher import Patcher

__all__ = ["install"]

aten = torch.ops.aten

# What autocast turns into float16, even if it was asked for bfloat16.
_CAST = (torch.float32, torch.bfloat16)
# cuDNN's numbers of the modes.
_MODES = {"rnn_relu": 0, "rnn_tanh": 1, "lstm": 2, "gru": 3}


def install(patcher: Patcher) -> None:
    for name, mode in _MODES.items():
        patcher.set(torch._VF, name, _with_cudnn(mode, getattr(torch._VF, name)))
    if not torch._C._has_cudnn:  # Otherwise torch knows the numbers itself.
        rnn = importlib.import_module("torch.backends.cudnn.rnn")
        patcher.set(rnn, "get_cudnn_mode", _cudnn_mode)
    patcher.set(torch, "_use_cudnn_rnn_flatten_weight", lambda: True)
    patcher.set(torch._VF, "_pad_packed_sequence", _pad_packed_sequence)


def _cudnn_mode(mode: str) -> int:
    return _MODES[mode.lower()]


def _pad_packed_sequence(
    data: torch.Tensor,
    batch_sizes: torch.Tensor,
    batch_first: bool,
    padding_value: float,
    total_length: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """As torch's own code, which writes the lengths through a pointer (PackedSequence.cpp)."""
    sizes = [int(each) for each in batch_sizes.tolist()]
    longest = max(total_length, len(sizes))
    output = data.new_full((longest, sizes[0], *data.shape[1:]), padding_value)
    lengths: list[int] = []
    offset = start = 0
    for step, (size, following) in enumerate(zip(sizes, [*sizes[1:], 0]), start=1):
        if following == size:
            continue
        count = size * (step - start)
        part = data[offset : offset + count].view((step - start, size, *data.shape[1:]))
        output[start:step].narrow(1, 0, size).copy_(part)
        lengths += [step] * (size - following)
        offset += count
        start = step
    return (
        output.transpose(0, 1) if batch_first else output,
        torch.tensor(lengths[::-1], dtype=torch.int64, device="cpu"),
    )


def _with_cudnn(mode: int, real: Callable[..., Any]) -> Callable[..., Any]:
    def run(first: Any, *args: Any) -> Any:
        if not isinstance(first, torch.Tensor) or first.device.type != "cuda":
            return real(first, *args)
        if isinstance(args[0], torch.Tensor) and isinstance(args[2], (list, tuple)):
            return _packed(mode, first, *args)
        return _plain(mode, first, *args)

    return run


def _buffer_of(weights: Any) -> torch.Tensor | None:
    """The buffer that `flatten_parameters` made; None if the weights do not lie together."""
    storage = weights[0].untyped_storage()
    if any(each.untyped_storage()._cdata != storage._cdata for each in weights):
        return None
    return torch.empty(0, dtype=weights[0].dtype, device=weights[0].device).set_(storage)


def _in_half(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.float16) if tensor.dtype in _CAST else tensor


def _weights_in_half(weights: Any) -> Any:
    """Copies in one buffer, as torch makes them at each call (ATen/cudnn/AutocastRNN.cpp)."""
    if weights[0].dtype not in _CAST:
        return weights
    size = (weight_elements(weights),)
    buffer = torch.zeros(size, dtype=torch.float16, device=weights[0].device)
    parts = []
    start = 0
    for each in weights:
        part = torch.empty(0, dtype=buffer.dtype, device=buffer.device)
        # A tensor of its own, not a view: the gradient goes to the weight alone.
        aten.set_.source_Tensor(part, buffer[start : start + each.numel()].view(each.shape))
        parts.append(part.copy_(each))
        start += each.numel()
    return parts


def _states(mode: int, hx: Any) -> tuple[torch.Tensor, torch.Tensor | None]:
    return (hx[0], hx[1]) if mode == _MODES["lstm"] else (hx, None)


def _cudnn(
    mode: int,
    data: torch.Tensor,
    hx: Any,
    weights: Any,
    layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
    batch_sizes: list[int],
) -> Any:
    if torch.is_autocast_enabled("cuda"):
        with torch.autocast("cuda", enabled=False):
            return _cudnn(
                mode,
                _in_half(data),
                tuple(map(_in_half, hx)) if isinstance(hx, (tuple, list)) else _in_half(hx),
                _weights_in_half(weights),
                *(layers, dropout, train, bidirectional, batch_first, batch_sizes),
            )
    hidden, cell = _states(mode, hx)
    hidden_size = (cell if cell is not None else hidden).size(-1)
    projected = hidden.size(-1) if hidden.size(-1) != hidden_size else 0
    per_layer = len(weights) // (layers * (2 if bidirectional else 1))
    outputs = aten._cudnn_rnn(
        data,
        list(weights),
        per_layer,
        _buffer_of(weights),
        hidden,
        cell,
        mode,
        hidden_size,
        projected,
        layers,
        batch_first,
        dropout,
        train,
        bidirectional,
        batch_sizes,
        None,
    )
    return tuple(outputs[: 3 if cell is not None else 2])


def _plain(
    mode: int,
    data: torch.Tensor,
    hx: Any,
    weights: Any,
    has_biases: bool,
    layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool = False,
) -> Any:
    return _cudnn(mode, data, hx, weights, layers, dropout, train, bidirectional, batch_first, [])


def _packed(
    mode: int,
    data: torch.Tensor,
    batch_sizes: torch.Tensor,
    hx: Any,
    weights: Any,
    has_biases: bool,
    layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
) -> Any:
    sizes = [int(each) for each in batch_sizes.tolist()]
    return _cudnn(mode, data, hx, weights, layers, dropout, train, bidirectional, False, sizes)
