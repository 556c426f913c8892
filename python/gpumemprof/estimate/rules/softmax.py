"""Softmax and what belongs to it."""

from __future__ import annotations

from typing import Any

from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.rules.copies import copies_inputs
from gpumemprof.estimate.rules.reductions.hooks import accumulator_bytes, take_reduction_memory
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


@rule("logsumexp", certainty="exact", hook="births")
def logsumexp(device: Device, call: Call, outputs: Any) -> None:
    """The largest elements, where they are finite, and the exponentials of the differences."""
    tensor = call.args[0]
    if not is_on_card(outputs) or not tensor.is_floating_point():
        device.births(outputs, call.name)
        return
    size = bytes_of(outputs)
    largest = device.allocate(size, call.name)
    dimensions = call.argument("dim")
    take_reduction_memory(device, tensor, dimensions, tensor.element_size())
    device.held(call.name, size, outputs.numel())
    exponentials = device.allocate(bytes_of(tensor), call.name)
    device.births(outputs, call.name)
    take_reduction_memory(device, tensor, dimensions, accumulator_bytes(tensor))
    device.free(exponentials)
    device.free(largest)


copies_inputs("_softmax", "_log_softmax", inputs=(0,), after_results=True)
copies_inputs(
    "_softmax_backward_data", "_log_softmax_backward_data", inputs=(0, 1), after_results=True
)
