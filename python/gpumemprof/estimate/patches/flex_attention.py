"""torch.nn.attention.flex_attention: what its compiled kernels allocate."""

from __future__ import annotations

from typing import Any

import torch

from gpumemprof.estimate.engine.device import Device

__all__ = ["flex_attention"]


class _Attention(torch.autograd.Function):  # type: ignore[misc]
    """The result and the logarithms of the sums, one per row; backward needs one more per row."""

    @staticmethod
    def forward(ctx: Any, query: Any, key: Any, value: Any) -> Any:
        result = query.new_empty((*query.shape[:-1], value.shape[-1]))
        sums = query.new_empty(query.shape[:-1], dtype=torch.float32)
        ctx.save_for_backward(query, key, value, result, sums)
        ctx.mark_non_differentiable(sums)
        return result, sums

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        query, key, value, _, sums = ctx.saved_tensors
        per_row = torch.empty_like(sums)
        found = tuple(torch.empty_like(each) for each in (query, key, value))
        del per_row
        return found


def flex_attention(device: Device, real: Any) -> Any:
    """A replacement of the function; `real` is what tensors of the CPU are given to."""

    def attend(query: Any, key: Any, value: Any, *args: Any, **kwargs: Any) -> Any:
        if query.device.type != "cuda":
            return real(query, key, value, *args, **kwargs)
        device.note("execution", "flex_attention is taken to be compiled")
        result, sums = _Attention.apply(query, key, value)
        if kwargs.get("return_aux") is not None:
            return result, type("AuxOutput", (), {"lse": sums, "max_scores": None})()
        return (result, sums) if kwargs.get("return_lse") else result

    return attend
