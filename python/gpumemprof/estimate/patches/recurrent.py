"""Recurrent networks: torch asks the driver whether cuDNN computes them; on a card it does."""

from __future__ import annotations

import importlib
from typing import Any, Callable

import torch

from gpumemprof.estimate.patches.patcher import Patcher

__all__ = ["install"]

aten = torch.ops.aten

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
        torch.tensor(lengths[::-1], dtype=torch.int64),
    )


def _with_cudnn(mode: int, real: Callable[..., Any]) -> Callable[..., Any]:
    def run(first: Any, *args: Any) -> Any:
        if not isinstance(first, torch.Tensor) or first.device.type != "cuda":
            return real(first, *args)
        if isinstance(args[0], torch.Tensor) and isinstance(args[2], (list, tuple)):
            return _packed(mode, first, *args)
        return _plain(mode, first, *args)

    return run


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
    hidden, cell = _states(mode, hx)
    hidden_size = (cell if cell is not None else hidden).size(-1)
    projected = hidden.size(-1) if hidden.size(-1) != hidden_size else 0
    per_layer = len(weights) // (layers * (2 if bidirectional else 1))
    outputs = aten._cudnn_rnn(
        data,
        list(weights),
        per_layer,
        None,
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
