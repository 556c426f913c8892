"""Losses that the usual rows do not cover, and connectionist temporal classification."""

from __future__ import annotations

from typing import Any, Callable

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own custom

from estimate_cases.bodies import Body

Op = Callable[[torch.Tensor], Body]
LOSSES = ((64, 20), (1000, 30), (4096, 128), (5000, 5), (300, 1000))


def against(run: Callable[[torch.Tensor, torch.Tensor], Any]) -> Op:
    """With a target of the same shape."""

    def op(x: torch.Tensor) -> Body:
        target = torch.rand_like(x.detach())
        return lambda: run(x, target)

    return op


def labelled(run: Callable[[torch.Tensor, torch.Tensor], Any]) -> Op:
    def op(x: torch.Tensor) -> Body:
        labels = torch.randint(0, x.size(1), (x.size(0),), device=x.device)
        return lambda: run(x, labels)

    return op


def ctc(batch: int, where: str, target_length: int = 12, joined: bool = False) -> Op:
    """`where`: the lengths are tensors on the card or on the CPU, or Python's numbers."""

    def op(x: torch.Tensor) -> Body:
        steps = max(2 * target_length + 1, x.size(0) // batch)
        words = x.size(1)
        log = torch.randn(steps, batch, words, device=x.device).log_softmax(-1).requires_grad_()
        shape = (batch * target_length,) if joined else (batch, target_length)
        goal = torch.randint(1, words, shape, device=x.device)
        lengths: tuple[Any, Any] = ([steps] * batch, [target_length] * batch)
        if where == "cudnn":
            goal = goal.int().cpu()
            lengths = tuple(torch.tensor(each, dtype=torch.int32) for each in lengths)
        elif where != "numbers":
            lengths = tuple(torch.tensor(each, device=where) for each in lengths)
        if where == "cpu":
            goal = goal.cpu()
        return lambda: F.ctc_loss(log, goal, *lengths)

    return op


def loss_ops() -> dict[str, Op]:
    signs = against(lambda x, t: F.hinge_embedding_loss(x, t.round() * 2 - 1))
    return {
        "multilabel_margin": labelled(
            lambda x, i: F.multilabel_margin_loss(x.float(), i[:, None].expand_as(x).clone())
        ),
        "multilabel_soft": against(lambda x, t: F.multilabel_soft_margin_loss(x, t.round())),
        "multi_margin": labelled(lambda x, i: F.multi_margin_loss(x.float(), i)),
        "multi_margin_none": labelled(
            lambda x, i: F.multi_margin_loss(x.float(), i, reduction="none")
        ),
        "soft_margin": against(lambda x, t: F.soft_margin_loss(x, t)),
        "poisson": against(lambda x, t: F.poisson_nll_loss(x, t)),
        "poisson_full": against(lambda x, t: F.poisson_nll_loss(x, t, full=True)),
        "hinge": signs,
        "bce": against(lambda x, t: F.binary_cross_entropy(x.sigmoid(), t)),
        "bce_sum": against(lambda x, t: F.binary_cross_entropy(x.sigmoid(), t, reduction="sum")),
        "mse_sum": against(lambda x, t: F.mse_loss(x, t, reduction="sum")),
        "l1_sum": against(lambda x, t: F.l1_loss(x, t, reduction="sum")),
        "smooth_sum": against(lambda x, t: F.smooth_l1_loss(x, t, reduction="sum")),
        "smooth_none": against(lambda x, t: F.smooth_l1_loss(x, t, reduction="none")),
        "huber_none": against(lambda x, t: F.huber_loss(x, t, reduction="none")),
        "kl": against(lambda x, t: F.kl_div(x.log_softmax(1), t, reduction="batchmean")),
        "focal": against(
            lambda x, t: (
                (1 - torch.exp(-F.binary_cross_entropy_with_logits(x, t, reduction="none"))) ** 2
            ).mean()
        ),
        "triplet": against(lambda x, t: F.triplet_margin_loss(x, t, t.flip(0))),
        "contrastive": against(
            lambda x, t: F.cross_entropy(
                F.normalize(x[:512], dim=1) @ F.normalize(t[:512], dim=1).T / 0.07,
                torch.arange(min(512, x.size(0)), device=x.device),
            )
        ),
        "cross_entropy_ignore": labelled(lambda x, i: F.cross_entropy(x, i, ignore_index=0)),
        "nll_none": labelled(lambda x, i: F.nll_loss(x.log_softmax(1), i, reduction="none")),
        "image_labels": labelled(
            lambda x, i: F.cross_entropy(x.T[None], i[None] % x.size(1), reduction="sum")
        ),
        "gumbel_hard": lambda x: lambda: F.gumbel_softmax(x, hard=True),
        "dropout": lambda x: lambda: F.dropout(x, 0.3),
        "alpha_dropout": lambda x: lambda: F.alpha_dropout(x, 0.3, True),
        "feature_alpha": lambda x: lambda: F.feature_alpha_dropout(x, 0.3, True),
        "ctc_numbers": ctc(8, "numbers"),
        "ctc_cpu": ctc(8, "cpu"),
        "ctc_cuda": ctc(8, "cuda"),
        "ctc_cudnn": ctc(8, "cudnn", joined=True),
        "ctc_long": ctc(3, "numbers", 150),
        "ctc_joined": ctc(16, "numbers", joined=True),
    }
