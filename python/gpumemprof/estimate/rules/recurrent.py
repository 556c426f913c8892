"""cuDNN's recurrent networks: reserve space for the backward pass, and workspaces.

The figures were fitted to networks of one direction; two are a guess.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.rules.table import Call, rule
from gpumemprof.estimate.rules.tensors import bytes_of, is_on_card, round_up

__all__: list[str] = []

LSTM, GRU = 2, 3  # cuDNN's numbers; 0 and 1 are plain networks
FIXED_BYTES = 256
CUBLAS_BYTES = 8 << 20
LARGEST_FAST_HIDDEN = 128
ADDITIONAL_PER_SEQUENCE = 6  # of each layer after the first


@dataclass(frozen=True)
class Values:
    """Numbers for each hidden unit: kept and needed for each step, and needed for each sequence."""

    kept_per_step: int
    per_step: int
    per_sequence: int


# Small networks take kernels that need more room.
SMALL = {LSTM: Values(5, 21, 8), GRU: Values(6, 18, 16)}
SMALL_PLAIN = Values(1, 13, 16)
LARGE = {LSTM: Values(5, 5, 10), GRU: Values(6, 6, 10)}
LARGE_PLAIN = Values(1, 1, 10)


@dataclass(frozen=True)
class Network:
    mode: int
    steps: int  # of all sequences together
    sequences: int
    inputs: int
    hidden: int
    layers: int
    stacked: int  # layers times directions
    weight_elements: int
    dtype: torch.dtype

    @staticmethod
    def of(tensor: torch.Tensor, weights: Any, hidden_state: torch.Tensor, rest: Any) -> Network:
        mode, hidden, _, layers, _, _, _, is_bidirectional, _ = rest
        matrices = [weight for weight in weights if weight.dim() == 2]
        return Network(
            mode,
            tensor.numel() // tensor.size(-1),
            hidden_state.size(1),
            tensor.size(-1),
            hidden,
            layers,
            layers * (2 if is_bidirectional else 1),
            sum(matrix.numel() for matrix in matrices),
            tensor.dtype,
        )

    @property
    def is_small(self) -> bool:
        return self.hidden <= LARGEST_FAST_HIDDEN and self.dtype != torch.bfloat16

    def values(self) -> Values:
        if self.is_small:
            return SMALL.get(self.mode, SMALL_PLAIN)
        return LARGE.get(self.mode, LARGE_PLAIN)

    def reserve_bytes(self) -> int:
        """What each layer keeps, and the results of all but the last."""
        directions = self.stacked // self.layers
        kept = self.values().kept_per_step * self.stacked + (self.layers - 1) * directions
        return self.steps * kept * self.hidden * int(self.dtype.itemsize) + FIXED_BYTES

    def workspace_bytes(self) -> int:
        """cuBLAS's for each layer; the steps of one layer at a time; the states of all."""
        values, size = self.values(), int(self.dtype.itemsize)
        per_step, per_sequence = values.per_step, values.per_sequence * self.stacked
        if self.is_small and self.stacked > 1:
            per_step += 1
            per_sequence = values.per_sequence + ADDITIONAL_PER_SEQUENCE * (self.stacked - 1)
        steps = self.steps * (per_step * self.hidden + self.inputs) * size
        sequences = self.sequences * per_sequence * self.hidden * size
        sequences += round_up(self.sequences * 8, 32)
        if self.inputs >= 4 * self.hidden:
            sequences += 11 * self.sequences * self.inputs * size
        weights = self.weight_elements * size
        return self.stacked * CUBLAS_BYTES + FIXED_BYTES + weights + steps + sequences


@rule("_cudnn_rnn", certainty="fitted", hook="births")
def forward(device: Device, call: Call, outputs: Any) -> None:
    tensor, weights = call.args[:2]
    if not is_on_card(tensor):
        device.births(outputs, call.name)
        return
    network = Network.of(tensor, weights, call.args[4], call.args[6:15])
    is_first = call.args[10] and not call.args[14]  # sequences come first, and are turned around
    copy = device.allocate(bytes_of(tensor), call.name) if is_first else 0
    device.births(outputs[:3], call.name)
    if call.args[3] is None:  # the weights do not lie together
        device.births(outputs[4], call.name)
    workspace = device.allocate(network.workspace_bytes(), call.name)
    if is_on_card(outputs[3]):
        device.birth_sized(outputs[3], network.reserve_bytes(), call.name)
        if network.stacked > network.layers:
            device.note("workspace", "the reserve space of two directions is a guess")
    device.free(workspace)
    device.free(copy)


@rule("_cudnn_rnn_backward", certainty="fitted", hook="births")
def backward(device: Device, call: Call, outputs: Any) -> None:
    """Missing gradients of the states are zeros; the weights follow after the rest."""
    tensor, weights = call.args[:2]
    hidden_state, cell_state = call.args[4:6]
    if not is_on_card(tensor):
        device.births(outputs, call.name)
        return
    network = Network.of(tensor, weights, hidden_state, call.args[10:19])
    states = ((hidden_state, call.args[8]), (cell_state, call.args[9]))
    zeros = [
        device.allocate(bytes_of(state), call.name)
        for state, gradient in states
        if state is not None and gradient is None
    ]
    device.births(outputs[:3], call.name)
    device.temporary(network.workspace_bytes(), call.name)
    device.births(outputs[3], call.name)
    device.temporary(network.workspace_bytes(), call.name)
    for address in reversed(zeros):
        device.free(address)
