"""Operations on rows of features: norms, losses, activations, indexing, sampling."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own custom

from estimate_cases.bodies import Body, grads


def row_ops(x: torch.Tensor) -> dict[str, Body]:
    size, device, dtype = x.size(-1), x.device, x.dtype
    weight, bias = grads(
        torch.ones(size, device=device, dtype=dtype), torch.zeros(size, device=device, dtype=dtype)
    )
    flat = x.flatten(0, -2)
    labels = torch.randint(0, size, (flat.size(0),), device=device)
    soft = torch.rand_like(flat.detach())
    target = torch.rand_like(x.detach())
    mask = target > 0.5
    classes = torch.rand(size, device=device, dtype=dtype)
    log = flat.detach().log_softmax(-1).requires_grad_()
    noise = {"sum": "sum", "none": "none"}
    return {
        "layer_norm": lambda: F.layer_norm(x, (size,), weight, bias),
        "layer_norm_bare": lambda: F.layer_norm(x, (size,)),
        "rms_norm": lambda: F.rms_norm(x, (size,), weight),
        "rms_norm_bare": lambda: F.rms_norm(x, (size,)),
        "hand_rms_norm": lambda: (
            weight
            * (x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6)).to(dtype)
        ),
        "cross_entropy": lambda: F.cross_entropy(flat, labels),
        "cross_entropy_sum": lambda: F.cross_entropy(flat, labels, reduction=noise["sum"]),
        "cross_entropy_none": lambda: F.cross_entropy(flat, labels, reduction=noise["none"]),
        "cross_entropy_weight": lambda: F.cross_entropy(flat, labels, classes),
        "cross_entropy_smooth": lambda: F.cross_entropy(flat, labels, label_smoothing=0.1),
        "cross_entropy_soft": lambda: F.cross_entropy(flat, soft),
        "cross_entropy_f32": lambda: F.cross_entropy(flat.float(), labels),
        "cross_entropy_2d": lambda: F.cross_entropy(flat[None].transpose(1, 2), labels[None]),
        "nll": lambda: F.nll_loss(log, labels),
        "bce_logits": lambda: F.binary_cross_entropy_with_logits(x, target),
        "bce_logits_weight": lambda: F.binary_cross_entropy_with_logits(
            x, target, pos_weight=classes
        ),
        "bce": lambda: F.binary_cross_entropy(x.sigmoid().float(), target.float()),
        "kl": lambda: F.kl_div(log, soft, reduction="batchmean"),
        "kl_log": lambda: F.kl_div(log, soft, log_target=True),
        "mse": lambda: F.mse_loss(x, target),
        "mse_sum": lambda: F.mse_loss(x, target, reduction="sum"),
        "mse_none": lambda: F.mse_loss(x, target, reduction="none"),
        "l1": lambda: F.l1_loss(x, target),
        "smooth_l1": lambda: F.smooth_l1_loss(x, target),
        "huber": lambda: F.huber_loss(x, target),
        "soft_margin": lambda: F.soft_margin_loss(x, target),
        "triplet": lambda: F.triplet_margin_loss(flat, soft, soft.flip(0)),
        "cosine_embedding": lambda: F.cosine_embedding_loss(
            flat, soft, torch.ones(flat.size(0), device=device)
        ),
        "gaussian": lambda: F.gaussian_nll_loss(x, target, target),
        "margin_ranking": lambda: F.margin_ranking_loss(flat, soft, soft),
        "multi_margin": lambda: F.multi_margin_loss(flat.float(), labels),
        "dropout": lambda: F.dropout(x, 0.1),
        "gelu": lambda: F.gelu(x),
        "gelu_tanh": lambda: F.gelu(x, approximate="tanh"),
        "silu": lambda: F.silu(x),
        "relu_": lambda: F.relu(x * 1, inplace=True),
        "mish": lambda: F.mish(x),
        "softplus": lambda: F.softplus(x),
        "glu": lambda: F.glu(x[..., : size // 2 * 2]),
        "logsigmoid": lambda: F.logsigmoid(x),
        "gumbel": lambda: F.gumbel_softmax(x),
        "masked_fill": lambda: x.masked_fill(mask, -1.0),
        "where": lambda: torch.where(mask, x, target),
        "where_scalar": lambda: torch.where(mask, x, 0.0),
        "clamp": lambda: x.clamp(0, 1),
        "gather": lambda: flat.gather(1, labels[:, None]),
        "scatter_add": lambda: torch.zeros_like(flat).scatter_add(
            1, labels[:, None].expand(-1, 3), flat[:, :3]
        ),
        "index_select": lambda: flat.index_select(0, labels % flat.size(0)),
        "index_row": lambda: flat[labels % flat.size(0)],
        "index_two": lambda: flat[torch.arange(flat.size(0), device=device), labels],
        "index_slice": lambda: flat[:, labels[:7]],
        "index_add": lambda: torch.zeros_like(flat).index_add(0, labels % flat.size(0), flat),
        "index_put": lambda: torch.zeros_like(flat).index_put((labels % flat.size(0),), flat),
        "index_put_add": lambda: torch.zeros_like(flat).index_put(
            (labels % flat.size(0),), flat, accumulate=True
        ),
        "index_copy": lambda: torch.zeros_like(flat).index_copy(0, labels % flat.size(0), flat),
        "scatter_reduce": lambda: torch.zeros_like(flat).scatter_reduce(
            1, labels[:, None], flat[:, :1], "amax"
        ),
        "take_along": lambda: torch.take_along_dim(flat, labels[:, None], 1),
        "one_hot": lambda: F.one_hot(labels, size),
        "multinomial": lambda: torch.multinomial(soft.float() + 1e-3, 1),
        "multinomial_many": lambda: torch.multinomial(soft.float() + 1e-3, min(3, size)),
        "bincount": lambda: torch.bincount(labels),
        "histc": lambda: torch.histc(x.detach().float(), 100),
        "searchsorted": lambda: torch.searchsorted(classes.float().sort()[0], x.detach().float()),
        "bucketize": lambda: torch.bucketize(x.detach().float(), classes.float().sort()[0]),
        "repeat_interleave": lambda: flat.repeat_interleave(2, 0),
        "repeat_tensor": lambda: flat[:64].repeat_interleave(labels[:64] % 4, 0),
        "tril": lambda: flat.tril(),
        "triu_mask": lambda: torch.triu(torch.ones(300, 300, device=device, dtype=torch.bool), 1),
        "cdist": lambda: torch.cdist(flat[:300].float(), soft[:200].float()),
        "cdist1": lambda: torch.cdist(flat[:100].float(), soft[:50].float(), p=1.0),
        "pdist": lambda: F.pdist(flat[:100].float()),
        "stack": lambda: torch.stack([x, x]),
        "addcmul": lambda: torch.addcmul(x, x, target),
        "lerp": lambda: torch.lerp(x, target, 0.5),
        "half_to_float": lambda: x.to(torch.float64),
        "randn_like": lambda: torch.randn_like(x),
        "randperm": lambda: torch.randperm(flat.size(0), device=device),
        "bernoulli": lambda: torch.bernoulli(soft),
        "exponential": lambda: torch.empty_like(soft).exponential_(),
        "isnan": lambda: x.isnan().any(),
        "isfinite": lambda: x.isfinite().all(),
        "allclose": lambda: torch.allclose(soft, soft),
        "nan_to_num": lambda: x.nan_to_num(),
        "cumsum_mask": lambda: mask.flatten(0, -2).cumsum(-1),
        "einsum": lambda: torch.einsum("ij,kj->ik", flat[:256], soft[:128]),
        "outer_mul": lambda: flat[:100, :, None] * soft[:100, None, :100],
        "cov": lambda: torch.corrcoef(flat[:50].float()),
        "norm_clip": lambda: (
            torch.nn.utils.clip_grad_norm_([weight], 1.0) if weight.grad is not None else x
        ),
    }
