"""Inputs that a kernel first copies, because it cannot read their layout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable

import torch

from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.rules.table import Call, Certainty, rule
from gpumemprof.estimate.rules.tensors import bytes_of, is_on_card

__all__ = ["copies_inputs", "free_copies", "take_copies"]

Accepts = Callable[[torch.Tensor], bool]


def is_contiguous(tensor: torch.Tensor) -> bool:
    return bool(tensor.is_contiguous())


def take_copies(
    device: Device, call: Call, inputs: Sequence[Any], accepts: Accepts = is_contiguous
) -> None:
    """Allocate a copy of each input that the kernel does not accept; `free_copies` frees them."""
    copies = call.state.setdefault("copies", [])
    for tensor in inputs:
        if is_on_card(tensor) and not accepts(tensor):
            copies.append(device.allocate(bytes_of(tensor), f"{call.name}: contiguous copy"))


def free_copies(device: Device, call: Call) -> None:
    for address in reversed(call.state.pop("copies", [])):
        device.free(address)


def copies_inputs(
    *names: str,
    inputs: Sequence[int],
    accepts: Accepts = is_contiguous,
    certainty: Certainty = "exact",
    after_results: bool = False,
) -> None:
    """Register that the kernels of these operations copy inputs, until they return.

    They do so before they allocate their results, or after them.
    """

    def chosen_inputs(call: Call) -> list[Any]:
        return [call.args[index] for index in inputs if index < len(call.args)]

    class Copies:
        @staticmethod
        def before(device: Device, call: Call) -> None:
            if not after_results:
                take_copies(device, call, chosen_inputs(call), accepts)

        @staticmethod
        def after(device: Device, call: Call, outputs: Any) -> None:
            if after_results:
                take_copies(device, call, chosen_inputs(call), accepts)
            free_copies(device, call)

    rule(*names, certainty=certainty)(Copies)
