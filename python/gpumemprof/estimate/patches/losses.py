"""The CTC loss: torch's own code for tensor subclasses needs its lengths on the device."""

from __future__ import annotations

import math
from typing import Any

import torch

from gpumemprof.estimate.patches.patcher import Patcher

__all__ = ["install"]

aten = torch.ops.aten
_MEAN, _SUM = 1, 2  # at::Reduction


def install(patcher: Patcher) -> None:
    real = torch.ctc_loss

    def ctc_loss(
        log_probs: torch.Tensor,
        targets: torch.Tensor,
        input_lengths: Any,
        target_lengths: Any,
        blank: int = 0,
        reduction: int = _MEAN,
        zero_infinity: bool = False,
    ) -> torch.Tensor:
        if log_probs.device.type != "cuda":
            more = (blank, reduction, zero_infinity)
            return real(log_probs, targets, input_lengths, target_lengths, *more)
        lengths = (_integers(input_lengths), _integers(target_lengths))
        batched = log_probs if log_probs.dim() == 3 else log_probs.unsqueeze(1)
        given = (input_lengths, target_lengths)
        if _can_stay_on_card(batched, targets, given, lengths, blank):
            more = (blank, True, zero_infinity)
            losses = aten._cudnn_ctc_loss.Tensor(batched, targets, *given, *more)[0]
        else:
            losses = _losses(batched, targets, *lengths, blank, zero_infinity)
        if reduction == _MEAN:
            divisors = torch.tensor(lengths[1], dtype=losses.dtype, device=losses.device)
            return (losses / divisors.clamp_min(1)).mean()
        if reduction == _SUM:
            return losses.sum()
        return losses if log_probs.dim() == 3 else losses.squeeze(0)

    patcher.set(torch, "ctc_loss", ctc_loss)


def _integers(lengths: Any) -> list[int]:
    values = lengths.tolist() if isinstance(lengths, torch.Tensor) else lengths
    return [int(each) for each in (values if isinstance(values, (list, tuple)) else [values])]


def _can_stay_on_card(
    log_probs: torch.Tensor, targets: torch.Tensor, given: Any, lengths: Any, blank: int
) -> bool:
    """Whether cuDNN takes the lengths as tensors, as in ATen/native/cudnn/LossCTC.cpp."""
    tensors = (targets, *given)
    if not torch.backends.cudnn.enabled or blank != 0 or log_probs.dtype != torch.float32:
        return False
    if any(not isinstance(each, torch.Tensor) or each.dtype != torch.int32 for each in tensors):
        return False
    fits = (target < 256 and target <= steps for steps, target in zip(*lengths))
    return targets.dim() == 1 and targets.is_contiguous() and all(fits)


def _losses(
    log_probs: torch.Tensor,
    targets: torch.Tensor,
    input_lengths: list[int],
    target_lengths: list[int],
    blank: int,
    zero_infinity: bool,
) -> torch.Tensor:
    """As in ATen/native/LossCTC.cpp."""
    lengths = (input_lengths, target_lengths, blank)
    if aten._use_cudnn_ctc_loss(log_probs, targets, *lengths):
        losses = aten._cudnn_ctc_loss(log_probs, targets, *lengths, True, zero_infinity)[0]
    else:
        moved = targets.to(log_probs.device, torch.int64)
        losses = aten._ctc_loss(log_probs, moved, *lengths, zero_infinity)[0]
        if zero_infinity:
            zero = torch.zeros((), dtype=losses.dtype, device=losses.device)
            losses = torch.where(losses == math.inf, zero, losses)
    found: torch.Tensor = losses
    return found
