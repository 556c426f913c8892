"""Kernels that allocate their results in another order than they return them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.rules.table import Call, Certainty, rule

__all__ = ["born_in_order"]


def born_in_order(
    *names: str,
    order: Sequence[int],
    not_on_card: Sequence[int] = (),
    certainty: Certainty = "exact",
) -> None:
    """Register the order of births; results that are not named follow in the order they have."""

    def births(device: Device, call: Call, outputs: Any) -> None:
        for index in not_on_card:
            device.not_there(outputs[index])
        for index in order:
            device.births(outputs[index], call.name)
        device.births(outputs, call.name)

    rule(*names, certainty=certainty, hook="births")(births)


born_in_order("native_dropout", order=(1, 0))
