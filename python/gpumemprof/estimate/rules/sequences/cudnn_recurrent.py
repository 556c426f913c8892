"""The sizes of cuDNN's workspaces and reserve spaces for recurrent networks.

cuDNN lays out several buffers in a workspace, each rounded up to 32 bytes; that of training serves
the forward and the backward pass. The sizes are those that cuDNN 9.19 answers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import torch

from gpumemprof.estimate.rules.tensors import divide_up, round_up

__all__ = ["LSTM", "Algorithm", "Network", "algorithm"]

LSTM, GRU = 2, 3  # cuDNN's numbers; 0 and 1 are plain networks
ALIGNMENT_BYTES = 32
FIXED_BYTES = 256
CUBLAS_BYTES = 8 << 20  # for each layer and direction
MOST_STEPS_OF_GATES = 256

Algorithm = Literal["standard", "small", "static"]


def algorithm(
    network: Network, is_forward: bool, capability: tuple[int, int], multiprocessors: int
) -> Algorithm:
    """As torch chooses: persistent kernels for small networks, and for some in half precision."""
    if network.projected or network.is_packed:
        return "standard"
    is_gated = network.mode in (LSTM, GRU)
    most_hidden = (192 if is_gated else 384) if is_forward else (128 if is_gated else 256)
    if network.dtype != torch.float64 and capability >= (6, 0) and network.hidden <= most_hidden:
        # cuDNN has no such kernels for bfloat16 and takes the standard ones.
        return "small" if network.dtype != torch.bfloat16 else "standard"
    has_static = network.layers * network.directions == 1 and network.hidden <= 1024
    are_multiples = network.hidden % 128 == 0 and network.inputs % 128 == 0
    if network.dtype == torch.float16 and has_static and are_multiples:
        return "static" if _is_static_fast(network, capability, multiprocessors) else "standard"
    return "standard"


def _is_static_fast(network: Network, capability: tuple[int, int], multiprocessors: int) -> bool:
    sequences, steps = network.sequences, network.steps
    if capability[0] == 7:
        is_multiple = sequences % 16 == 0 and sequences not in (80, 112)
        is_long = (
            (steps >= 40 and sequences <= 128)
            or (steps >= 20 and sequences <= 96)
            or (steps >= 10 and sequences <= 32)
        )
        return capability[1] != 5 and (is_multiple or sequences == 8) and is_long
    # cuDNN has none for newer cards and takes the standard ones.
    is_old_or_new = capability[0] < 8 or capability[0] > 9
    if is_old_or_new or multiprocessors < 98 or capability[1] == 6 or network.mode == GRU:
        return False
    is_wide = network.mode != LSTM and sequences >= 96 and network.hidden >= 896
    return sequences % 8 == 0 and sequences <= 128 and not is_wide


@dataclass(frozen=True)
class Network:
    mode: int
    dtype: torch.dtype
    inputs: int
    hidden: int
    projected: int  # 0: there is no projection
    layers: int
    directions: int
    is_packed: bool
    has_dropout: bool
    steps: int  # of the longest sequence
    sequences: int
    total_steps: int  # of all sequences

    @property
    def is_lstm(self) -> bool:
        return self.mode == LSTM

    @property
    def outputs(self) -> int:
        return self.projected or self.hidden

    @property
    def gates(self) -> int:
        return {LSTM: 4, GRU: 3}.get(self.mode, 1)

    @property
    def stacked(self) -> int:
        return self.layers * self.directions

    @property
    def bias_elements(self) -> int:
        """cuDNN has two biases for each gate, also where torch has none."""
        return 2 * self.gates * self.hidden * self.stacked

    @property
    def matrix_elements(self) -> int:
        widths = self.inputs + (self.layers - 1) * self.directions * self.outputs
        gates = self.gates * self.hidden * (widths + self.layers * self.outputs)
        return self.directions * (gates + self.layers * self.projected * self.hidden)

    # Elements of one state of each layer, and of a value of each step.

    @property
    def _state(self) -> int:
        return self.layers * self.sequences * self.hidden

    @property
    def _step(self) -> int:
        return self.total_steps * self.hidden

    def _bytes(self, elements: Iterable[int]) -> int:
        size = int(self.dtype.itemsize)
        return sum(round_up(each * size, ALIGNMENT_BYTES) for each in elements)

    def reserve_bytes(self) -> int:
        """What each layer keeps for the backward pass, and the results of all but the last."""
        stacked = self.stacked * self._step
        buffers = {LSTM: [4 * stacked, stacked], GRU: [6 * stacked]}.get(self.mode, [stacked])
        buffers.append((self.layers - 1) * self.directions * self._step)
        if self.projected:
            buffers += [stacked, self.stacked * self.total_steps * self.projected]
        return FIXED_BYTES + self._bytes(buffers) + self._dropout_bytes()

    def _dropout_bytes(self) -> int:
        """A bit for each result between two layers."""
        if not self.has_dropout:
            return 0
        bits = self.directions * self.steps * self.sequences * self.outputs
        masks = (self.layers - 1) * self.directions
        return masks * round_up(divide_up(bits, 8), ALIGNMENT_BYTES)

    def workspace_bytes(
        self, kind: Algorithm, is_training: bool, capability: tuple[int, int]
    ) -> int:
        passes = self._bytes(self._forward(kind))
        if is_training:
            backward = self._bytes(self._backward(kind))
            if kind == "static":
                backward += self._static_bytes()
            passes = max(passes, backward)
        # Other cards than those of Ampere and Ada have several streams for a stack of layers.
        has_no_streams = capability[0] == 8 and self.directions == 1 and self.layers > 1
        fixed = FIXED_BYTES + (0 if has_no_streams else self.stacked * CUBLAS_BYTES)
        if not self.is_packed:
            fixed += round_up(8 * self.sequences, ALIGNMENT_BYTES)
        return fixed + self._bytes([self.matrix_elements]) + passes

    def _static_bytes(self) -> int:
        """Their buffer of eight values for each step has a least size."""
        least = (4864 + 2 * self.sequences) * self.hidden
        return max(0, least - self._bytes([8 * self._step]))

    def _forward(self, kind: Algorithm) -> list[int]:
        state, step, directions = self._state, self._step, self.directions
        buffers = self._states(kind)
        steps_of_gates = self.total_steps
        if kind == "standard" and directions == 1:
            steps_of_gates = min(steps_of_gates, MOST_STEPS_OF_GATES * self.sequences)
        buffers.append(directions * self.gates * steps_of_gates * self.hidden)
        buffers.append(
            directions * self.gates * state if kind == "standard" else 4 * self.gates * step
        )
        if directions == 2:
            buffers.append(4 * step)
        elif self.has_dropout:
            buffers.append(step)
        if self.projected:
            buffers.append(directions * step)
        return buffers + self._unpadded(1)

    def _backward(self, kind: Algorithm) -> list[int]:
        state, step, directions = self._state, self._step, self.directions
        buffers = self._states(kind)
        widest = self.total_steps * max(self.inputs, self.hidden)
        if directions == 2:
            buffers += [(2 if self.layers == 1 else 4) * step, 4 * widest]
        elif self.layers == 1:
            buffers += [step, widest]
        elif kind == "standard":
            within = min(self.total_steps, self._window() * self.sequences)
            buffers += [within * self.hidden, widest]
        else:
            buffers += [2 * step, widest]
        if kind == "standard":
            buffers.append(directions * state)
        else:
            buffers += [8 * step, {LSTM: 4, GRU: 6}.get(self.mode, 1) * step]
        if self.projected:
            buffers.append(directions * step)
        return buffers + self._unpadded(2)

    def _window(self) -> int:
        """How many steps of all layers are on their way at once; longer sequences have more."""
        if self.sequences <= 16:
            each = 32 if self.sequences == 1 else 16 if self.sequences <= 8 else 8
        elif self.steps >= 128:
            each = 8
        else:
            each = 4 if self.sequences <= 96 else 2
        return min(self.steps, each * self.layers + max(each, 8))

    def _states(self, kind: Algorithm) -> list[int]:
        buffers = [2 * self.directions * self._state] if self.is_lstm else []
        if self.directions == 2:
            buffers.append(4 * self._state)
        if kind != "standard":
            buffers.append(2 * self._state)
        return buffers

    def _unpadded(self, count: int) -> list[int]:
        """Inputs, results and states as cuDNN packs them; the backward pass has gradients, too."""
        if self.is_packed:
            return []
        results = self.directions * self.total_steps * self.outputs
        states = self.directions * self.layers * self.sequences * self.outputs
        cells = [self.directions * self._state] * 2 if self.is_lstm else []
        return [self.total_steps * self.inputs, results, states, states, *cells] * count
