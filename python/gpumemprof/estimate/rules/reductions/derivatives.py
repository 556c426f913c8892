"""Derivatives of products, which torch computes in another way for tensor subclasses.

Of plain tensors it looks first whether a factor is zero (FunctionsManual.cpp, prod_backward and
cumprod_backward), and divides where none is.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.rules.table import Call, rule
from gpumemprof.estimate.rules.tensors import bytes_of, is_on_card

__all__: list[str] = []

COUNT_BYTES = 8
# Tensors of the input's size that the way for factors that are zero holds, beyond the other way.
MORE_WITH_ZEROS = 4
MORE_OF_CUMULATIVE = 6


def _derivative_of(name: str) -> Any:
    """The node of autograd that is being computed, if it is this one on the card; else None."""
    node = torch._C._current_autograd_node()
    if node is None or torch.is_grad_enabled() or node.name() != name:
        return None
    return node if is_on_card(node._saved_self) else None


@rule("ones", certainty="exact", hook="before")
def derivative_of_product(device: Device, call: Call) -> None:
    """Along a dimension: where the zeros are and how many each product has is kept meanwhile.

    Ones begin the way for factors that are zero. Subclasses always take it, so it is assumed; the
    other way needs less.
    """
    node = _derivative_of("ProdBackward1")
    if node is None:
        return
    tensor = node._saved_self
    products = math.prod(call.args[0])
    held = [device.allocate(size, "prod") for size in (tensor.numel(), COUNT_BYTES * products)]
    less = products * tensor.element_size() + MORE_WITH_ZEROS * bytes_of(tensor)
    device.note("behaviour", "a product was taken to have factors that are zero")
    device.change_doubt(0, less)

    def release(*_: Any) -> None:
        handle.remove()
        device.change_doubt(0, -less)
        for address in reversed(held):
            device.free(address)

    handle = node.register_hook(release)


@rule("eq", certainty="exact")
def derivative_of_cumulative_product(device: Device, call: Call, outputs: Any) -> None:
    """After the look for zeros: none is found, and sums from the end are divided by the factors.

    The way for subclasses, which torch goes on with here, takes no memory then.
    """
    if device.is_without_memory or (node := _derivative_of("CumprodBackward0")) is None:
        return
    size = bytes_of(node._saved_self)
    device.held("cumprod", size, size, size)  # reversed, summed, and reversed again
    device.may_need(MORE_OF_CUMULATIVE * size)
    device.note("behaviour", "no factor of a cumulative product was taken to be zero")
    sums = device.allocate(size, "cumprod")
    device.is_without_memory = True

    def release(gradients: Any, _: Any) -> None:
        handle.remove()
        device.is_without_memory = False
        for each in gradients:
            if is_on_card(each):
                device.resize(each.untyped_storage(), bytes_of(each), "cumprod")
        device.free(sums)

    handle = node.register_hook(release)
