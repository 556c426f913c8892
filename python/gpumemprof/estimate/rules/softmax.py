"""Softmax and what belongs to it."""

from __future__ import annotations

from typing import Any

from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.rules.copies import copies_inputs
from gpumemprof.estimate.rules.table import Call, rule
from gpumemprof.estimate.rules.tensors import bytes_of, is_on_card

__all__: list[str] = []


@rule("_softmax_backward_data", certainty="exact")
def softmax_backward(device: Device, call: Call, outputs: Any) -> None:
    """Gradient times result is a temporary."""
    if is_on_card(outputs):
        device.temporary(bytes_of(outputs), call.name)


@rule("_safe_softmax", certainty="exact", hook="births")
def safe_softmax(device: Device, call: Call, outputs: Any) -> None:
    """Softmax, and then zeros in the rows that are masked completely: which, if any, and a zero."""
    device.births(outputs, call.name)
    if is_on_card(outputs):
        rows = outputs.numel() // outputs.size(call.argument("dim"))
        device.held(call.name, outputs.numel(), rows, outputs.element_size())


copies_inputs("_softmax", "_log_softmax", inputs=(0,), after_results=True)
copies_inputs(
    "_softmax_backward_data", "_log_softmax_backward_data", inputs=(0, 1), after_results=True
)
