"""cuDNN's recurrent networks: reserve space for the backward pass, and workspaces."""

from __future__ import annotations

from typing import Any

from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.rules.table import Call, rule
from gpumemprof.estimate.rules.tensors import bytes_of, is_on_card

__all__: list[str] = []

# Values that cuDNN keeps for each hidden unit and step, by its numbers of the modes.
KEPT_VALUES = {0: 2, 1: 2, 2: 6, 3: 5}


@rule("_cudnn_rnn", certainty="guess", hook="births")
def forward(device: Device, call: Call, outputs: Any) -> None:
    for output in outputs[:3]:
        device.births(output, call.name)
    reserve = outputs[3]
    if is_on_card(reserve):
        tensor, mode, hidden, layers = (call.args[index] for index in (0, 6, 7, 9))
        directions = 2 if call.args[13] else 1
        steps = tensor.numel() // tensor.size(-1)
        kept = KEPT_VALUES.get(mode, 2) * hidden * directions * layers
        device.birth_sized(reserve, steps * kept * tensor.element_size(), call.name)
        device.note("workspace", "the reserve space of a recurrent network is a guess")
    device.births(outputs, call.name)


@rule("_cudnn_rnn_flatten_weight", certainty="exact")
def flatten(device: Device, call: Call, outputs: Any) -> None:
    """The weights are copied into one buffer; for a moment they exist twice."""
    device.temporary(sum(bytes_of(weight) for weight in call.args[0]), call.name)
