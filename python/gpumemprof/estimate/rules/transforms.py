"""Fourier transforms, distances and random draws."""

from __future__ import annotations

from typing import Any

from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.rules.copies import copies_inputs
from gpumemprof.estimate.rules.table import Call, rule
from gpumemprof.estimate.rules.tensors import bytes_of, is_half, is_on_card

__all__: list[str] = []


@rule("_fft_c2r", certainty="exact")
def inverse_transform(device: Device, call: Call, outputs: Any) -> None:
    """cuFFT overwrites its input, so it gets a copy."""
    if is_on_card(outputs):
        device.temporary(bytes_of(call.args[0]), call.name)


@rule("_fft_r2c", "_fft_c2c", certainty="fitted")
def transform(device: Device, call: Call, outputs: Any) -> None:
    if is_on_card(outputs) and not call.args[0].is_contiguous():
        device.temporary(bytes_of(call.args[0]), call.name)


@rule("abs", "angle", certainty="exact")
def real_part(device: Device, call: Call, outputs: Any) -> None:
    """Complex results first, whose real parts are copied."""
    if is_on_card(outputs) and call.args[0].is_complex():
        device.temporary(bytes_of(call.args[0]), call.name)


@rule("_cdist_backward", certainty="exact")
def distance_backward(device: Device, call: Call, outputs: Any) -> None:
    """The difference of each pair."""
    first, second = call.args[1:3]
    if is_on_card(outputs):
        device.temporary(bytes_of(first) * second.size(-2), call.name)


copies_inputs("_cdist_backward", inputs=(1, 2))


@rule("bernoulli", certainty="exact")
def coin_tosses(device: Device, call: Call, outputs: Any) -> None:
    """Probabilities in half precision are drawn from in single precision."""
    if is_on_card(outputs) and is_half(call.args[0]):
        device.temporary(call.args[0].numel() * 4, call.name)
