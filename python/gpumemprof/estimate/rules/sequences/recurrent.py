"""Recurrent networks that cuDNN computes (ATen/native/cudnn/RNN.cpp)."""

from __future__ import annotations

from typing import Any

import torch

from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.rules.sequences.cudnn_recurrent import Network, algorithm
from gpumemprof.estimate.rules.table import Call, rule
from gpumemprof.estimate.rules.tensors import bytes_of, is_on_card

__all__: list[str] = []

BYTES_PER_DROPOUT_STATE = 24  # one for each thread of the card


def _network(tensor: torch.Tensor, options: Any) -> Network:
    mode, hidden, projected, layers, is_batch_first, dropout, is_training, is_both, sizes = options
    if sizes:
        steps, sequences, total = len(sizes), int(sizes[0]), tensor.size(0)
    else:
        steps, sequences = (tensor.size(0), tensor.size(1))[:: -1 if is_batch_first else 1]
        total = steps * sequences
    return Network(
        mode=mode,
        dtype=tensor.dtype,
        inputs=tensor.size(-1),
        hidden=hidden,
        projected=projected,
        layers=layers,
        directions=2 if is_both else 1,
        is_packed=bool(sizes),
        has_dropout=bool(is_training and dropout > 0),
        steps=steps,
        sequences=sequences,
        total_steps=total,
    )


def _workspace_bytes(
    device: Device, network: Network, is_forward: bool, is_training: bool = True
) -> int:
    card = device.card
    kind = algorithm(network, is_forward, card.capability, card.multiprocessors)
    return network.workspace_bytes(kind, is_training, card.capability)


def _copy_bytes(tensor: torch.Tensor, has_sequences_first: bool) -> int:
    """Of the copy with the steps first; 0 if it lies so already."""
    ordered = tensor.transpose(0, 1) if has_sequences_first else tensor
    return 0 if ordered.is_contiguous() else bytes_of(tensor)


def _dropout_states(device: Device, call: Call) -> None:
    """The states of the random numbers, which torch keeps; the seed is drawn on the card."""
    major, minor = device.card.capability
    is_narrow = (major == 8 and minor > 0) or major == 12
    threads = 1024 if (major, minor) == (7, 5) else 1536 if is_narrow else 2048
    key = "cuDNN's dropout states"
    if not device.has_persistent(key):
        device.temporary(8, call.name)
    states = device.card.multiprocessors * threads * BYTES_PER_DROPOUT_STATE
    device.persistent(key, states, call.name)


@rule("_cudnn_rnn", certainty="exact", hook="births")
def forward(device: Device, call: Call, outputs: Any) -> None:
    tensor = call.args[0]
    if not is_on_card(tensor):
        device.births(outputs, call.name)
        return
    options = call.args[6:15]
    network = _network(tensor, options)
    is_training = bool(options[6])
    if network.has_dropout and call.args[15] is None:
        _dropout_states(device, call)
    copy = device.allocate(_copy_bytes(tensor, options[4] and not options[8]), call.name)
    device.births(outputs[:3], call.name)
    if call.args[3] is None:  # the weights do not lie together
        device.births(outputs[4], call.name)
    workspace = device.allocate(_workspace_bytes(device, network, True, is_training), call.name)
    if is_training:
        device.birth_sized(outputs[3], network.reserve_bytes(), call.name)
    device.free(workspace)
    device.free(copy)


@rule("_cudnn_rnn_backward", certainty="exact", hook="births")
def backward(device: Device, call: Call, outputs: Any) -> None:
    """Missing gradients are zeros; the gradients of the weights follow after the rest."""
    tensor = call.args[0]
    hidden_state, cell_state, result = call.args[4:7]
    if not is_on_card(tensor):
        device.births(outputs, call.name)
        return
    options = call.args[10:19]
    network = _network(tensor, options)
    has_sequences_first = options[4] and not options[8]
    like = (result, hidden_state, cell_state)
    zeros = [
        device.allocate(bytes_of(each), call.name)
        for each, gradient in zip(like, call.args[7:10])
        if each is not None and gradient is None
    ]
    workspace_bytes = _workspace_bytes(device, network, False)
    size = _copy_bytes(tensor, has_sequences_first)
    gradient = call.args[7]
    if gradient is None:
        gradient = torch.empty(result.shape, dtype=result.dtype, device="meta")
    copies = [
        device.allocate(size, call.name),
        device.allocate(_copy_bytes(gradient, has_sequences_first), call.name),
    ]
    device.births(outputs[0], call.name)
    copies += [
        device.allocate(_copy_bytes(each, False), call.name)
        for each in call.args[8:10]
        if each is not None
    ]
    device.births(outputs[1:3], call.name)
    device.temporary(workspace_bytes, call.name)
    for address in reversed(copies):
        device.free(address)
    if call.args[21][3]:
        copy = device.allocate(size, call.name)
        _weight_gradients(device, call, outputs[3], network, workspace_bytes)
        device.free(copy)
    for address in reversed(zeros):
        device.free(address)


def _weight_gradients(
    device: Device, call: Call, gradients: Any, network: Network, workspace_bytes: int
) -> None:
    """cuDNN's gradients have biases: torch copies them if its network has none."""
    if call.args[2] >= 4:
        device.births(gradients, call.name)
        device.temporary(workspace_bytes, call.name)
        return
    elements = network.matrix_elements + network.bias_elements
    buffer = device.allocate(elements * network.dtype.itemsize, call.name)
    workspace = device.allocate(workspace_bytes, call.name)
    device.births(gradients, call.name)
    device.free(workspace)
    device.free(buffer)
