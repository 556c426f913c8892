"""Operations on images."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own custom

from estimate_cases.bodies import Body, grads


def image_ops(x: torch.Tensor) -> dict[str, Body]:
    n, c, h, w = x.shape
    weight, bias = grads(torch.ones(c, device=x.device), torch.zeros(c, device=x.device))
    halves = (
        weight.detach().to(x.dtype).requires_grad_(),
        bias.detach().to(x.dtype).requires_grad_(),
    )
    mean, var = torch.zeros(c, device=x.device), torch.ones(c, device=x.device)
    grid = torch.rand(n, h, w, 2, device=x.device, dtype=x.dtype, requires_grad=True)
    groups = 8 if c % 8 == 0 else 1
    ops: dict[str, Body] = {
        "batch_norm": lambda: F.batch_norm(x, mean, var, weight, bias, True),
        "batch_norm_half": lambda: F.batch_norm(x, mean, var, *halves, True),
        "batch_norm_eval": lambda: F.batch_norm(x, mean, var, weight, bias, False),
        "batch_norm_bare": lambda: F.batch_norm(x, None, None, None, None, True),
        "group_norm": lambda: F.group_norm(x, groups, *halves),
        "group_norm_1": lambda: F.group_norm(x, 1, *halves),
        "group_norm_bare": lambda: F.group_norm(x, groups),
        "instance_norm": lambda: F.instance_norm(x, weight=halves[0], bias=halves[1]),
        "layer_norm_image": lambda: F.layer_norm(x, (c, h, w)),
        "layer_norm_last": lambda: F.layer_norm(x.permute(0, 2, 3, 1), (c,), *halves),
        "max_pool": lambda: F.max_pool2d(x, 2),
        "max_pool3": lambda: F.max_pool2d(x, 3, 2, 1),
        "avg_pool": lambda: F.avg_pool2d(x, 2),
        "adaptive_avg_1": lambda: F.adaptive_avg_pool2d(x, 1),
        "adaptive_avg_7": lambda: F.adaptive_avg_pool2d(x, 7),
        "adaptive_avg_6": lambda: F.adaptive_avg_pool2d(x, (6, 5)),
        "adaptive_max": lambda: F.adaptive_max_pool2d(x, 3),
        "lp_pool": lambda: F.lp_pool2d(x, 2.0, 2),
        "nearest": lambda: F.interpolate(x, scale_factor=2),
        "bilinear": lambda: F.interpolate(x, scale_factor=2, mode="bilinear"),
        "bilinear_size": lambda: F.interpolate(
            x, size=(50, 40), mode="bilinear", align_corners=True
        ),
        "bicubic": lambda: F.interpolate(x, scale_factor=2, mode="bicubic"),
        "area": lambda: F.interpolate(x, scale_factor=0.5, mode="area"),
        "antialias": lambda: F.interpolate(x, size=(20, 20), mode="bilinear", antialias=True),
        "grid_sample": lambda: F.grid_sample(x, grid, align_corners=False),
        "affine_grid": lambda: F.affine_grid(grid[:, :2, :3, 0], [n, c, h, w], align_corners=False),
        "pad": lambda: F.pad(x, (1, 2, 3, 1)),
        "pad_reflect": lambda: F.pad(x, (1, 1, 1, 1), mode="reflect"),
        "pad_replicate": lambda: F.pad(x, (1, 1, 1, 1), mode="replicate"),
        "pad_circular": lambda: F.pad(x, (1, 1, 1, 1), mode="circular"),
        "unfold": lambda: F.unfold(x, 3, padding=1),
        "fold": lambda: F.fold(F.unfold(x, 2, stride=2), (h, w), 2, stride=2),
        "dropout2d": lambda: F.dropout2d(x, 0.2),
        "alpha_dropout": lambda: F.alpha_dropout(x, 0.2, True),
        "pixel_shuffle": lambda: F.pixel_unshuffle(F.pad(x, (0, w % 2, 0, h % 2)), 2),
        "channel_shuffle": lambda: F.channel_shuffle(x, groups),
        "prelu": lambda: F.prelu(x, halves[0]),
        "rrelu": lambda: F.rrelu(x, training=True),
        "cat": lambda: torch.cat([x, x, x[:, :1]], 1),
        "flip": lambda: x.flip(-1),
        "roll": lambda: x.roll((1, 2), (2, 3)),
        "fft2": lambda: torch.fft.rfft2(x.float()).abs(),
        "fft": lambda: torch.fft.fft(x.float()).real,
        "ifft": lambda: torch.fft.irfft(torch.fft.rfft(x.float())),
        "local_response": lambda: F.local_response_norm(x, 3),
        "cosine": lambda: F.cosine_similarity(x, x.flip(0), dim=1),
        "normalize": lambda: F.normalize(x, dim=1),
    }
    return ops
